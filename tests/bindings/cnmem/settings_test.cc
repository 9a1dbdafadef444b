// SPDX-License-Identifier: Apache-2.0
// Environment variables: how they are parsed, and their effects.
#include "bindings/cnmem/settings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/bindings/cnmem/fixture.h"
#include "tests/support/temporary_files.h"
#include "tidepool/log.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::size_t kGranule = 64 << 10;  // of the stand-in's virtual memory

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
    EXPECT_THAT(complaints[0], StartsWith("TIDEPOOL_CNMEM_" + text + " is ignored, expected "));
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
    EXPECT_THAT(complaints, ElementsAre("TIDEPOOL_CNMEM_REMAP=1 is ignored, expected 0 "
                                        "where memory is segments"));
  }
}

// A program in which the parts are linked has one log, and may take its messages.
TEST(CnmemSettingsTest, ComplaintsGoToTheLog) {
  const Variable variable("TIDEPOOL_CNMEM_WAIT", "a while");
  std::vector<std::string> told;
  SetLog([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) told.emplace_back(text);
  });
  ::testing::internal::CaptureStderr();
  cnmem::ReadSettings();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  SetLog(nullptr);
  EXPECT_THAT(told, ElementsAre(StartsWith("TIDEPOOL_CNMEM_WAIT=a while is ignored, expected ")));
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
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_DEFAULT, {stream}), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{4096, 4096})) << "whatever the granularity";
  CudartHostLive live;
  cudartHostCountLive(&live);
  EXPECT_EQ(live.allocations, 0);
  EXPECT_GT(live.mappings, 0);
  void* const block = Malloc(3000, stream);
  EXPECT_EQ(GetInfo(), (Info{1024, 4096}));
  Free(block, stream);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
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

// Rounding up to granules must never exceed the limit.
TEST_F(CnmemEnvironmentTest, NoMoreThanTheBudgetIsTakenOrHandedOut) {
  const auto check = [](std::size_t budget, std::size_t size, unsigned flags) {
    const cudaStream_t stream = NewStream();
    const std::vector<std::size_t> reserved = {size / 3};
    ASSERT_EQ(Init(size, flags, {stream}, reserved), CNMEM_STATUS_SUCCESS);
    std::size_t handed_out = 0;
    for (const cudaStream_t from : {stream, cudaStream_t{nullptr}}) {
      while (TryMalloc(512, from) == CNMEM_STATUS_SUCCESS) handed_out += 512;
    }
    EXPECT_GE(handed_out, budget < kGranule ? budget / 512 * 512 : budget - kGranule);
    EXPECT_LE(handed_out, budget);
    EXPECT_LE(kMemory - FreeOnDevice(), budget);
    EXPECT_EQ(GetInfo().total_bytes, handed_out);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  };
  const std::pair<std::string, std::string> memories[] = {
      {"MEMORY", "segments"}, {"MEMORY", "virtual"}, {"REMAP", "1"}};
  for (const auto& [name, value] : memories) {
    const Variable memory("TIDEPOOL_CNMEM_" + name, value);
    for (const std::size_t budget :
         {std::size_t{4096}, kGranule - 512, kGranule, kGranule + 512, 5 * kGranule / 2}) {
      for (const unsigned flags : {CNMEM_FLAGS_DEFAULT, CNMEM_FLAGS_CANNOT_STEAL}) {
        SCOPED_TRACE(name + " " + std::to_string(budget) + " " + std::to_string(flags));
        check(budget, budget, flags | CNMEM_FLAGS_CANNOT_GROW);
        const Variable limit("TIDEPOOL_CNMEM_BUDGET", std::to_string(budget));
        check(budget, budget / 2, flags);
      }
    }
  }
}

// A reserve of virtual memory would remap its memory, and return addresses outside of its range.
TEST_F(CnmemEnvironmentTest, WhatIsReservedInOnePieceStaysThere) {
  const Variable remap("TIDEPOOL_CNMEM_REMAP", "1");
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(8 * kGranule, CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL, {stream},
                 {8 * kGranule}),
            CNMEM_STATUS_SUCCESS);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Malloc(kGranule, stream));
  for (int i = 0; i < 8; i += 2) Free(blocks[i], stream);
  EXPECT_EQ(TryMalloc(2 * kGranule, stream), CNMEM_STATUS_OUT_OF_MEMORY);
  for (int i = 1; i < 8; i += 2) Free(blocks[i], stream);
  Free(Malloc(8 * kGranule, stream), stream);
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
  const std::string prefix = TemporaryFile("cnmem_trace");
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
              HasSubstr("nothing is recorded: /nowhere/at/all.0.tide: "));
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

class CnmemErrorsTest : public CnmemFixture {
 protected:
  // Returns the text that a call prints; the call returns `status`.
  static std::string Said(cnmemStatus_t status, const std::function<cnmemStatus_t()>& call) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(call(), status);
    return ::testing::internal::GetCapturedStderr();
  }
  // Expects a single line that begins with the function and the status, and contains these words.
  static void ExpectLine(const std::string& function, cnmemStatus_t status,
                         const std::string& words, const std::function<cnmemStatus_t()>& call) {
    const std::string text = Said(status, call);
    EXPECT_THAT(text,
                StartsWith("tidepool: " + function + ": " + cnmemGetErrorString(status) + ": "));
    EXPECT_THAT(text, HasSubstr(words));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }

  const Variable errors_{"TIDEPOOL_CNMEM_ERRORS", "1"};
};

TEST_F(CnmemErrorsTest, OfEveryFunctionBeforeInit) {
  void* address = nullptr;
  std::size_t bytes = 0;
  const std::pair<std::string, std::function<cnmemStatus_t()>> calls[] = {
      {"cnmemFinalize", [] { return cnmemFinalize(); }},
      {"cnmemRetain", [] { return cnmemRetain(); }},
      {"cnmemRelease", [] { return cnmemRelease(); }},
      {"cnmemRegisterStream", [] { return cnmemRegisterStream(nullptr); }},
      {"cnmemMalloc", [&] { return cnmemMalloc(&address, 512, nullptr); }},
      {"cnmemFree", [] { return cnmemFree(nullptr, nullptr); }},
      {"cnmemMemGetInfo", [&] { return cnmemMemGetInfo(&bytes, &bytes, nullptr); }},
      {"cnmemPrintMemoryState", [] { return cnmemPrintMemoryState(stderr, nullptr); }}};
  for (const auto& [function, call] : calls) {
    ExpectLine(function, CNMEM_STATUS_NOT_INITIALIZED, "call cnmemInit first", call);
  }
  const Variable off("TIDEPOOL_CNMEM_ERRORS", "0");
  EXPECT_EQ(Said(CNMEM_STATUS_NOT_INITIALIZED, [] { return cnmemFinalize(); }), "");
}

TEST_F(CnmemErrorsTest, OfArguments) {
  const cnmemStatus_t invalid = CNMEM_STATUS_INVALID_ARGUMENT;
  ExpectLine("cnmemInit", invalid, "devices is null", [] { return cnmemInit(1, nullptr, 0); });
  ExpectLine("cnmemInit", invalid, "expected less than the device's",
             [] { return Init(2 * kMemory); });
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  ExpectLine("cnmemInit", invalid, "initialized already", [] { return Init(4096); });
  const cudaStream_t unknown = NewStream();
  const std::string registered =
      "is not registered on the current device: call cnmemRegisterStream first";
  std::size_t bytes = 0;
  int other = 0;
  ExpectLine("cnmemMalloc", invalid, "ptr is null",
             [] { return cnmemMalloc(nullptr, 512, nullptr); });
  ExpectLine("cnmemMalloc", invalid, registered, [&] { return TryMalloc(512, unknown); });
  ExpectLine("cnmemFree", invalid, registered, [&] { return cnmemFree(&other, unknown); });
  ExpectLine("cnmemFree", invalid, "expected a live allocation",
             [&] { return cnmemFree(&other, nullptr); });
  ExpectLine("cnmemMemGetInfo", invalid, "freeMem is null",
             [&] { return cnmemMemGetInfo(nullptr, &bytes, nullptr); });
  ExpectLine("cnmemMemGetInfo", invalid, "totalMem is null",
             [&] { return cnmemMemGetInfo(&bytes, nullptr, nullptr); });
  ExpectLine("cnmemMemGetInfo", invalid, registered,
             [&] { return cnmemMemGetInfo(&bytes, &bytes, unknown); });
  ExpectLine("cnmemPrintMemoryState", invalid, "file is null",
             [] { return cnmemPrintMemoryState(nullptr, nullptr); });
  ExpectLine("cnmemPrintMemoryState", invalid, registered,
             [&] { return cnmemPrintMemoryState(stderr, unknown); });
  ExpectLine("cnmemRegisterStream", invalid, "stream is null",
             [] { return cnmemRegisterStream(nullptr); });
}

// CNMeM's users do not know the pool's own terms.
TEST_F(CnmemErrorsTest, OfMemoryInWordsOfCnmem) {
  const auto expect = [](std::size_t bytes, const std::string& words) {
    const std::string text = Said(CNMEM_STATUS_OUT_OF_MEMORY, [&] { return TryMalloc(bytes); });
    EXPECT_THAT(text, StartsWith("tidepool: cnmemMalloc: CNMEM_STATUS_OUT_OF_MEMORY: " +
                                 std::to_string(bytes) + " bytes asked for, "));
    EXPECT_THAT(text, HasSubstr(words));
    for (const char* const foreign : {"max_bytes", "AllocateBlocking", "plan", "offload"}) {
      EXPECT_THAT(text, Not(HasSubstr(foreign)));
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  };
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  expect(8192,
         "the limit of device 0 is 4096: give cnmemDevice_t a larger size, or leave "
         "CNMEM_FLAGS_CANNOT_GROW out");
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Malloc(1024));
  expect(1024, "4096 live in 4 allocations");
  expect(1024, "free 1024 bytes");
  Free(blocks[0]);
  Free(blocks[2]);
  expect(2048, "enough is free, but no hole is large enough");
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  {
    const Variable budget("TIDEPOOL_CNMEM_BUDGET", "8192");
    ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
    expect(16384, "the limit of device 0 is 8192: raise TIDEPOOL_CNMEM_BUDGET");
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  }
  void* taken = nullptr;
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  expect(2 * kMemory, "the limit of device 0 is 67108864: the device has no more memory");
  Malloc(kMemory / 2);
  expect(kMemory, "67108864: free 33554432 bytes\n");
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  Malloc(4096);  // otherwise it would be given back to CUDA for the larger allocation
  ASSERT_EQ(cudaMalloc(&taken, FreeOnDevice() - 8192), cudaSuccess);
  expect(1 << 20, "CUDA has 8192 bytes of the device left");
  ASSERT_EQ(cudaFree(taken), cudaSuccess);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  const Variable wait("TIDEPOOL_CNMEM_WAIT", "1ms");
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  Malloc(4096);
  expect(512, "waited for them 1ms (TIDEPOOL_CNMEM_WAIT)");
}

}  // namespace
}  // namespace tidepool
