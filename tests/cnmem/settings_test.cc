// Environment variables: what they say, and what they do.
#include "bindings/cnmem/settings.h"

#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "tests/cnmem/fixture.h"
#include "tidepool/trace.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

cnmem::Settings Read(const std::vector<std::string>& lines, std::vector<std::string>* complaints) {
  return cnmem::ReadSettings(lines, complaints);
}

TEST(CnmemSettingsTest, AreWhatIsSaid) {
  std::vector<std::string> complaints;
  const cnmem::Settings settings =
      Read({"HOME=/root", "TIDEPOOL_CNMEM_PLACEMENT=first-fit", "TIDEPOOL_CNMEM_BUDGET=3GiB",
            "TIDEPOOL_CNMEM_MEMORY=virtual", "TIDEPOOL_CNMEM_GROWTH=0.25", "TIDEPOOL_CNMEM_REMAP=1",
            "TIDEPOOL_CNMEM_WAIT=1500ms", "TIDEPOOL_CNMEM_TRACE=/tmp/a=b",
            "TIDEPOOL_CNMEM_STATISTICS=1", "TIDEPOOL_CNMEM_ERRORS=0"},
           &complaints);
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_EQ(settings.placement, "first-fit");
  EXPECT_EQ(settings.budget_bytes, std::int64_t{3} << 30);
  EXPECT_FALSE(settings.budget_part.has_value());
  EXPECT_EQ(settings.has_virtual_memory, true);
  EXPECT_EQ(settings.growth, 0.25);
  EXPECT_TRUE(settings.remaps);
  EXPECT_EQ(settings.wait, absl::Milliseconds(1500));
  EXPECT_EQ(settings.trace, "/tmp/a=b");
  EXPECT_TRUE(settings.statistics);
  EXPECT_FALSE(settings.errors);
}

TEST(CnmemSettingsTest, WhatIsEmptyIsNotThere) {
  std::vector<std::string> complaints;
  const cnmem::Settings settings = Read(
      {"TIDEPOOL_CNMEM_BUDGET=", "TIDEPOOL_CNMEM_TRACE=", "TIDEPOOL_CNMEM_WAIT="}, &complaints);
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_FALSE(settings.budget_bytes.has_value());
  EXPECT_EQ(settings.trace, "");
  EXPECT_EQ(settings.wait, absl::ZeroDuration());
}

TEST(CnmemSettingsTest, ReadsAmounts) {
  const auto budget = [](const std::string& text) {
    std::vector<std::string> complaints;
    return Read({"TIDEPOOL_CNMEM_BUDGET=" + text}, &complaints);
  };
  EXPECT_EQ(budget("512").budget_bytes, 512);
  EXPECT_EQ(budget("7KiB").budget_bytes, 7 << 10);
  EXPECT_EQ(budget("7MiB").budget_bytes, 7 << 20);
  EXPECT_EQ(budget("7TiB").budget_bytes, std::int64_t{7} << 40);
  EXPECT_EQ(budget("8388607TiB").budget_bytes, std::int64_t{8388607} << 40);
  EXPECT_EQ(budget("80%").budget_part, 0.8);
  EXPECT_EQ(budget("100%").budget_part, 1);
  EXPECT_EQ(budget("12.5%").budget_part, 0.125);
}

TEST(CnmemSettingsTest, ComplainsOfWhatIsMalformedAndIgnoresIt) {
  const std::vector<std::string> malformed = {"PLACEMENT=worst-fit",
                                              "BUDGET=lots",
                                              "BUDGET=0",
                                              "BUDGET=-1",
                                              "BUDGET=8GB",
                                              "BUDGET=GiB",
                                              "BUDGET=1.5GiB",
                                              "BUDGET=99999999999999999999",
                                              "BUDGET=8388608TiB",
                                              "BUDGET=0%",
                                              "BUDGET=101%",
                                              "BUDGET=%",
                                              "BUDGET= 8",
                                              "MEMORY=fast",
                                              "MEMORY=Virtual",
                                              "GROWTH=2",
                                              "GROWTH=-0.1",
                                              "GROWTH=nan",
                                              "GROWTH=1e-1",
                                              "GROWTH=",
                                              "REMAP=yes",
                                              "REMAP=2",
                                              "WAIT=5",
                                              "WAIT=-1s",
                                              "WAIT=0",
                                              "WAIT=forever",
                                              "STATISTICS=true",
                                              "ERRORS=on"};
  for (const std::string& text : malformed) {
    if (text.ends_with('=')) continue;
    std::vector<std::string> complaints;
    const cnmem::Settings settings = Read({"TIDEPOOL_CNMEM_" + text}, &complaints);
    ASSERT_EQ(complaints.size(), 1U) << text;
    EXPECT_THAT(complaints[0],
                HasSubstr("tidepool: TIDEPOOL_CNMEM_" + text + " is ignored, expected "));
    EXPECT_EQ(settings.placement, "best-fit");
    EXPECT_FALSE(settings.budget_bytes.has_value() || settings.budget_part.has_value());
    EXPECT_FALSE(settings.has_virtual_memory.has_value() || settings.growth.has_value());
    EXPECT_FALSE(settings.remaps || settings.statistics || settings.errors);
    EXPECT_EQ(settings.wait, absl::ZeroDuration());
  }
}

TEST(CnmemSettingsTest, ComplainsOfNamesAndOfWhatCannotBeTogether) {
  std::vector<std::string> complaints;
  Read({"TIDEPOOL_CNMEM_BUGDET=8GiB"}, &complaints);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_THAT(complaints[0], HasSubstr("expected one of TIDEPOOL_CNMEM_PLACEMENT, "));
  for (const bool is_first : {false, true}) {
    complaints.clear();
    std::vector<std::string> lines = {"TIDEPOOL_CNMEM_MEMORY=segments", "TIDEPOOL_CNMEM_REMAP=1"};
    if (is_first) std::swap(lines[0], lines[1]);
    EXPECT_FALSE(Read(lines, &complaints).remaps);
    EXPECT_THAT(complaints, ElementsAre("tidepool: TIDEPOOL_CNMEM_REMAP=1 is ignored, expected 0 "
                                        "where memory is segments"));
  }
}

class CnmemEnvironmentTest : public CnmemFixture {
 protected:
  static std::string Finalize() {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(CnmemEnvironmentTest, WhatIsMalformedIsReportedOnceInAProcess) {
  const Variable budget("TIDEPOOL_CNMEM_BUDGET", "rather much");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tidepool: TIDEPOOL_CNMEM_BUDGET=rather much is ignored, expected bytes (8589934592, "
            "8GiB) or a part of the device's memory (80%)\n");
}

TEST_F(CnmemEnvironmentTest, ABudgetLimitsEverything) {
  {
    const Variable budget("TIDEPOOL_CNMEM_BUDGET", "8MiB");
    ASSERT_EQ(Init(4 << 20), CNMEM_STATUS_SUCCESS);
    Malloc(4 << 20);
    Malloc(4 << 20);
    EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_OUT_OF_MEMORY);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    ASSERT_EQ(Init(32 << 20), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(GetInfo(), (Info{8 << 20, 8 << 20})) << "the size that the program wants, too";
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  }
  const Variable budget("TIDEPOOL_CNMEM_BUDGET", "25%");
  ASSERT_EQ(Init(0), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo().total_bytes, kMemory / 4);
}

TEST_F(CnmemEnvironmentTest, MemoryMayBeVirtual) {
  const Variable memory("TIDEPOOL_CNMEM_MEMORY", "virtual");
  const cudaStream_t stream = NewStream();
  for (const unsigned flags : {CNMEM_FLAGS_DEFAULT, CNMEM_FLAGS_CANNOT_GROW}) {
    ASSERT_EQ(Init(4096, flags, {stream}), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(GetInfo(), (Info{4096, 4096})) << "whatever the granularity";
    CudartHostLive live;
    cudartHostCountLive(&live);
    EXPECT_EQ(live.allocations, 0);
    EXPECT_GT(live.mappings, 0);
    void* const block = Malloc(3000, stream);
    EXPECT_EQ(GetInfo(), (Info{1024, 4096}));
    Free(block, stream);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  }
  ASSERT_EQ(Init(1 << 20), CNMEM_STATUS_SUCCESS);
  for (int i = 0; i < 8; ++i) Malloc(1 << 20);
  EXPECT_GE(GetInfo().total_bytes, std::size_t{8} << 20);
  EXPECT_EQ(GetInfo().total_bytes - GetInfo().free_bytes, std::size_t{8} << 20);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(Init(1 << 20, CNMEM_FLAGS_MANAGED), CNMEM_STATUS_SUCCESS);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, Malloc(512)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged) << "which cannot be virtual";
}

TEST_F(CnmemEnvironmentTest, ADeviceWithoutVirtualMemoryGivesSegments) {
  const Variable memory("TIDEPOOL_CNMEM_MEMORY", "virtual");
  ConfigureStandIn({.has_virtual_memory = false});
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  Free(Malloc(4096));
}

TEST_F(CnmemEnvironmentTest, RemappingServesWhatFits) {
  const Variable remap("TIDEPOOL_CNMEM_REMAP", "1");
  ASSERT_EQ(Init(8 << 20, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Malloc(1 << 20));
  for (int i = 0; i < 8; i += 2) Free(blocks[i]);
  void* const moved = Malloc(4 << 20);
  Free(moved);
  for (int i = 1; i < 8; i += 2) Free(blocks[i]);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  // Less than a granule.
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  Malloc(4096);
}

TEST_F(CnmemEnvironmentTest, WaitsForMemory) {
  const Variable wait("TIDEPOOL_CNMEM_WAIT", "inf");
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW, {stream}), CNMEM_STATUS_SUCCESS);
  void* const block = Malloc(4096);
  std::thread waiter([&] { Free(Malloc(2048, stream), stream); });
  Free(block);
  waiter.join();
  EXPECT_EQ(TryMalloc(8192), CNMEM_STATUS_OUT_OF_MEMORY) << "for which no free makes room";
}

TEST_F(CnmemEnvironmentTest, WaitsNoLongerThanItIsTold) {
  const Variable wait("TIDEPOOL_CNMEM_WAIT", "1ms");
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  Malloc(4096);
  EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_OUT_OF_MEMORY);
}

TEST_F(CnmemEnvironmentTest, ADifferentPolicyPlacesDifferently) {
  const auto reuses_the_lower_hole = [](const std::string& policy) {
    const Variable placement("TIDEPOOL_CNMEM_PLACEMENT", policy);
    EXPECT_EQ(Init(8192, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
    void* const large = Malloc(2048);
    Malloc(512);
    void* const small = Malloc(1024);
    Malloc(512);
    Free(large);
    Free(small);
    const bool is_lower = Malloc(1024) == large;
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    return is_lower;
  };
  EXPECT_TRUE(reuses_the_lower_hole("first-fit"));
  EXPECT_FALSE(reuses_the_lower_hole("best-fit"));
}

TEST_F(CnmemEnvironmentTest, RecordsATraceForEachDevice) {
  const std::string prefix = ::testing::TempDir() + "cnmem_trace";
  const Variable trace("TIDEPOOL_CNMEM_TRACE", prefix);
  cnmemDevice_t devices[2] = {};
  devices[0].size = devices[1].size = 4096;
  devices[1].device = 1;
  ASSERT_EQ(cnmemInit(2, devices, 0), CNMEM_STATUS_SUCCESS);
  Free(Malloc(1000));
  Malloc(512);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  for (const int device : {0, 1}) {
    const absl::StatusOr<Trace> read = ReadTrace(prefix + "." + std::to_string(device) + ".tide");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->allocations.size(), device == 0 ? 2U : 0U);
  }
}

TEST_F(CnmemEnvironmentTest, ATraceThatCannotBeWrittenIsNoError) {
  const Variable trace("TIDEPOOL_CNMEM_TRACE", "/nowhere/at/all");
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("nothing is recorded: /nowhere/at/all.0.tide:0: "));
  Free(Malloc(512));
}

TEST_F(CnmemEnvironmentTest, PrintsStatisticsInTheEnd) {
  const Variable statistics("TIDEPOOL_CNMEM_STATISTICS", "1");
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_STEAL | CNMEM_FLAGS_CANNOT_GROW, {stream}, {1024}),
            CNMEM_STATUS_SUCCESS);
  Free(Malloc(1000));
  Malloc(512);
  EXPECT_EQ(TryMalloc(4096), CNMEM_STATUS_OUT_OF_MEMORY);
  const std::string text = Finalize();
  EXPECT_THAT(text, HasSubstr("cnmem on device 0: 2 allocations, 1 frees, 1 refused, 0 waited"));
  EXPECT_THAT(text, HasSubstr("live 512 bytes in 1 allocations, at most 1024; held 3072"));
  EXPECT_THAT(text, HasSubstr("cnmem on device 0, reserved for stream 0x"));
}

TEST_F(CnmemEnvironmentTest, SpeaksOfErrorsWhenItIsTold) {
  const Variable errors("TIDEPOOL_CNMEM_ERRORS", "1");
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TryMalloc(8192), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(TryMalloc(512, NewStream()), CNMEM_STATUS_INVALID_ARGUMENT);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("tidepool: cnmemMalloc: CNMEM_STATUS_OUT_OF_MEMORY: out of memory: "
                              "8192 bytes asked for"));
  EXPECT_THAT(text, HasSubstr("expected one that is registered on the current device"));
}

}  // namespace
}  // namespace tidepool
