// SPDX-License-Identifier: Apache-2.0
// Guarantees of a pipeline for single transfers and a few: contents, memory, order, errors.
#include "tidepool/copies/compression_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <latch>
#include <string>

#include "tests/copies/pipeline/pipeline_fixture.h"
#include "tests/support/temporary_files.h"
#include "tidepool/copies/compression_profile.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class CompressionPipelineTest : public ::testing::TestWithParam<Memory> {
 protected:
  PipelineFixture fixture_{{.memory = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(, CompressionPipelineTest,
                         ::testing::Values(Memory::kPages, Memory::kPinned), [](const auto& test) {
                           return test.param == Memory::kPages ? "pages" : "pinned";
                         });

TEST_P(CompressionPipelineTest, BringsTheBytesBack) {
  for (const std::int64_t bytes :
       {0, 1, 2, 3, 4, 5, 8191, 8192, 8193, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 1'000'003}) {
    for (const double density : {0.0, 0.01, 0.5, 1.0}) {
      for (const ZeroValueWord word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
        const Bytes contents = ActivationBytes(bytes, density, 1);
        void* const memory = fixture_.NewMemory(contents);
        const auto stored = fixture_.Offload(memory, bytes, word);
        ASSERT_TRUE(stored.ok()) << stored.status();
        EXPECT_EQ((*stored)->input_bytes(), bytes);
        EXPECT_EQ((*stored)->word(), word);
        EXPECT_EQ((*stored)->held_bytes(), fixture_.HeldBytes());
        EXPECT_EQ(fixture_.pipeline().Stats().held_bytes, fixture_.HeldBytes());
        EXPECT_LE((*stored)->compressed_bytes(), (*stored)->held_bytes());
        fixture_.Write(memory, Bytes(static_cast<std::size_t>(bytes), std::byte{0xee}));
        ASSERT_TRUE(fixture_.Prefetch(*stored, memory).ok());
        EXPECT_EQ(fixture_.Read(memory, bytes), contents) << bytes;
        fixture_.Free(memory);
      }
    }
  }
  EXPECT_EQ(fixture_.HeldBytes(), 0);
  EXPECT_EQ(fixture_.pipeline().Stats().held_bytes, 0);
}

TEST_P(CompressionPipelineTest, CountsTransfers) {
  const std::int64_t bytes = 3 * kMiB;
  const Bytes contents = ActivationBytes(bytes, 0.25, 2);
  std::int64_t words = 0;
  for (std::size_t at = 0; at < contents.size(); at += 4) {
    words +=
        static_cast<std::int64_t>(contents[at + 2] != std::byte{0} ||
                                  contents[at + 3] != std::byte{0} || contents[at] != std::byte{0});
  }
  void* const memory = fixture_.NewMemory(contents);
  const Stored stored = fixture_.Offload(memory, bytes).value();
  EXPECT_EQ(stored->nonzero_words(), words);
  EXPECT_GT(stored->compressed_bytes(), bytes / 8);
  EXPECT_LT(stored->compressed_bytes(), bytes * 3 / 10);
  ASSERT_TRUE(fixture_.Prefetch(stored, memory).ok());
  const CompressionPipelineStats stats = fixture_.pipeline().Stats();
  EXPECT_EQ(stats.offloads, 1);
  EXPECT_EQ(stats.prefetches, 1);
  EXPECT_EQ(stats.failures, 0);
  EXPECT_EQ(stats.offloaded_bytes, bytes);
  EXPECT_EQ(stats.prefetched_bytes, bytes);
  EXPECT_EQ(stats.compressed_bytes, stored->compressed_bytes());
  EXPECT_GE(stats.peak_held_bytes, stored->held_bytes());
  EXPECT_EQ(stats.ring_bytes, 2 * 3 * 32 * kKiB);
  EXPECT_GT(stats.compress_ns, 0);
  EXPECT_GT(stats.decompress_ns, 0);
}

TEST_P(CompressionPipelineTest, PinsNoMoreThanItsRings) {
  const std::int64_t bytes = 16 * kMiB;
  void* const memory = fixture_.NewMemory(ActivationBytes(bytes, 0.5, 3));
  const Stored stored = fixture_.Offload(memory, bytes).value();
  ASSERT_TRUE(fixture_.Prefetch(stored, memory).ok());
  EXPECT_EQ(fixture_.staging().Stats().peak_asked_bytes, fixture_.pipeline().Stats().ring_bytes);
  if (GetParam() == Memory::kPages) {
    EXPECT_EQ(fixture_.pinned().Stats().allocations, 0);
  } else {
    EXPECT_EQ(fixture_.pages().Stats().takes, 0);
  }
}

TEST_P(CompressionPipelineTest, WaitsForTheStream) {
  const std::int64_t bytes = 200 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 4);
  void* const memory = fixture_.NewMemory(bytes);
  const Stream producer = fixture_.device().CreateStream().value();
  std::latch latch(1);
  ASSERT_TRUE(fixture_.device().CallHost(producer, [&latch] { latch.wait(); }).ok());
  ASSERT_TRUE(fixture_.device()
                  .Copy(memory, contents.data(), bytes, CopyDirection::kToDevice, producer)
                  .ok());
  auto offload = fixture_.BeginOffload(memory, bytes, producer);
  // The transfer does not wait for work that is queued later.
  std::latch never(1);
  ASSERT_TRUE(fixture_.device().CallHost(producer, [&never] { never.wait(); }).ok());
  latch.count_down();
  const Stored stored = offload.get().value();

  void* const other = fixture_.NewMemory(bytes);
  const Stream consumer = fixture_.device().CreateStream().value();
  std::latch writes(1);
  ASSERT_TRUE(fixture_.device().CallHost(consumer, [&writes] { writes.wait(); }).ok());
  ASSERT_TRUE(fixture_.device().Fill(other, 0xee, bytes, consumer).ok());
  auto prefetch = fixture_.BeginPrefetch(stored, other, consumer);
  writes.count_down();
  ASSERT_TRUE(prefetch.get().ok());
  EXPECT_EQ(fixture_.Read(other, bytes), contents);
  never.count_down();
  EXPECT_TRUE(fixture_.device().SynchronizeStream(producer).ok());
}

TEST_P(CompressionPipelineTest, DirectionsDoNotWaitForEachOther) {
  const std::int64_t bytes = 300 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 5);
  void* const memory = fixture_.NewMemory(contents);
  const Stored stored = fixture_.Offload(memory, bytes).value();
  const Stream busy = fixture_.device().CreateStream().value();
  std::latch latch(1);
  ASSERT_TRUE(fixture_.device().CallHost(busy, [&latch] { latch.wait(); }).ok());
  // More transfers than threads and slots; none can begin.
  std::vector<std::future<absl::StatusOr<Stored>>> offloads;
  for (int i = 0; i < 10; ++i) offloads.push_back(fixture_.BeginOffload(memory, bytes, busy));
  void* const other = fixture_.NewMemory(bytes);
  ASSERT_TRUE(fixture_.Prefetch(stored, other).ok());
  EXPECT_EQ(fixture_.Read(other, bytes), contents);
  latch.count_down();
  for (auto& offload : offloads) EXPECT_TRUE(offload.get().ok());
}

TEST_P(CompressionPipelineTest, AGateHoldsUpNoEarlierTransfer) {
  const std::int64_t bytes = 500 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 6);
  void* const memory = fixture_.NewMemory(contents);
  const Stored stored = fixture_.Offload(memory, bytes).value();
  void* const first = fixture_.NewMemory(bytes);
  void* const second = fixture_.NewMemory(bytes);
  for (int i = 0; i < 20; ++i) {
    // The second transfer waits for a stream that waits for the first.
    const Stream stream = fixture_.device().CreateStream().value();
    std::latch latch(1);
    ASSERT_TRUE(fixture_.device().CallHost(stream, [&latch] { latch.wait(); }).ok());
    auto early = fixture_.BeginPrefetch(stored, first);
    auto late = fixture_.BeginPrefetch(stored, second, stream);
    auto early_offload = fixture_.BeginOffload(memory, bytes);
    auto late_offload = fixture_.BeginOffload(memory, bytes, stream);
    EXPECT_TRUE(early.get().ok());
    EXPECT_TRUE(early_offload.get().ok());
    latch.count_down();
    EXPECT_TRUE(late.get().ok());
    EXPECT_TRUE(late_offload.get().ok());
  }
  EXPECT_EQ(fixture_.Read(first, bytes), contents);
  EXPECT_EQ(fixture_.Read(second, bytes), contents);
}

TEST_P(CompressionPipelineTest, CanBeUsedByTheFunctionsThatItCalls) {
  const std::int64_t bytes = 100 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 7);
  void* const memory = fixture_.NewMemory(contents);
  void* const other = fixture_.NewMemory(bytes);
  std::promise<absl::Status> over;
  ASSERT_TRUE(fixture_.pipeline()
                  .Offload(memory, bytes, ZeroValueWord::k32Bits, {},
                           [&](absl::StatusOr<Stored> stored) {
                             const absl::Status status = fixture_.pipeline().Prefetch(
                                 *std::move(stored), other, {},
                                 [&](absl::Status end) { over.set_value(std::move(end)); });
                             if (!status.ok()) over.set_value(status);
                           })
                  .ok());
  EXPECT_TRUE(over.get_future().get().ok());
  EXPECT_EQ(fixture_.Read(other, bytes), contents);
}

TEST_P(CompressionPipelineTest, DestructionFinishesTransfers) {
  const std::int64_t bytes = 2 * kMiB;
  void* const memory = fixture_.NewMemory(ActivationBytes(bytes, 0.5, 8));
  std::vector<std::future<absl::StatusOr<Stored>>> offloads;
  for (int i = 0; i < 5; ++i) offloads.push_back(fixture_.BeginOffload(memory, bytes));
  fixture_.DestroyPipeline();
  EXPECT_EQ(fixture_.staging().Stats().live_bytes, 0);
  for (auto& offload : offloads) {
    ASSERT_EQ(offload.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_TRUE(offload.get().ok());
  }
  EXPECT_EQ(fixture_.HeldBytes(), 0);
}

TEST_P(CompressionPipelineTest, StoredBuffersOutliveIt) {
  const std::int64_t bytes = kMiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 9);
  void* const memory = fixture_.NewMemory(contents);
  Stored stored = fixture_.Offload(memory, bytes).value();
  fixture_.DestroyPipeline();
  const CompressedMemory pool = GetParam() == Memory::kPages ? CompressedMemory(&fixture_.pages())
                                                             : CompressedMemory(&fixture_.pinned());
  // A pipeline with other slots and threads.
  const auto other =
      CompressionPipeline::Create(&fixture_.device(), &fixture_.staging(), pool,
                                  {.ring = {.slots = 2, .slot_bytes = 64 * kKiB}, .threads = 1});
  ASSERT_TRUE(other.ok());
  void* const to = fixture_.NewMemory(bytes);
  std::promise<absl::Status> over;
  ASSERT_TRUE(
      (*other)->Prefetch(stored, to, {}, [&over](absl::Status end) { over.set_value(end); }).ok());
  ASSERT_TRUE(over.get_future().get().ok());
  EXPECT_EQ(fixture_.Read(to, bytes), contents);

  const auto small =
      CompressionPipeline::Create(&fixture_.device(), &fixture_.staging(), pool,
                                  {.ring = {.slots = 2, .slot_bytes = 24 * kKiB}, .threads = 1});
  ASSERT_TRUE(small.ok());
  const absl::Status refused = (*small)->Prefetch(stored, to, {}, [](const absl::Status&) {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("32768"));
  stored.reset();
  EXPECT_EQ(fixture_.HeldBytes(), 0);
}

// While all other threads wait for copies, only the thread that runs callers' functions can see the
// transfers that end meanwhile.
TEST(CompressionPipelineThreadsTest, RunsFunctionsOfTransfersThatEndMeanwhile) {
  PipelineFixture fixture(
      {.pipeline = {.ring = {.slots = 3, .slot_bytes = 32 * kKiB}, .threads = 1}});
  const std::int64_t bytes = 90 * kKiB;  // all in flight
  void* const memory = fixture.NewMemory(ActivationBytes(bytes, 0.5, 7));
  const Stored stored = fixture.Offload(memory, bytes).value();
  fixture.device().HoldCopies();
  auto offload = fixture.BeginOffload(memory, bytes);
  auto prefetch = fixture.BeginPrefetch(stored, fixture.NewMemory(bytes));
  std::promise<absl::Status> over;
  int left = 100;
  std::function<void(const absl::StatusOr<Stored>&)> again = [&](const auto& empty) {
    if (!empty.ok() || left-- == 0) return over.set_value(empty.status());
    const absl::Status begun =
        fixture.pipeline().Offload(memory, 0, ZeroValueWord::k32Bits, {}, again);
    if (!begun.ok()) over.set_value(begun);
  };
  again(Stored());
  EXPECT_TRUE(over.get_future().get().ok());
  fixture.device().ReleaseCopies();
  EXPECT_TRUE(offload.get().ok());
  EXPECT_TRUE(prefetch.get().ok());
}

TEST(CompressionPipelineMemoryTest, ABufferThatIsNotThereTakesNoMemory) {
  PipelineFixture fixture;
  void* const memory = fixture.NewMemory(kMiB);
  const auto refused = fixture.Offload(memory, std::int64_t{1} << 50);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  EXPECT_EQ(fixture.HeldBytes(), 0);
  EXPECT_TRUE(fixture.Offload(memory, kMiB).ok());
}

TEST(CompressionPipelineMemoryTest, LeavesTheDeviceAsItIsWhenItRunsOut) {
  for (const Memory memory : {Memory::kPages, Memory::kPinned}) {
    PipelineFixture fixture({.pages = {.page_bytes = 16 * kKiB, .max_bytes = 512 * kKiB},
                             .pinned = {.max_bytes = 512 * kKiB},
                             .memory = memory});
    const std::int64_t bytes = 2 * kMiB;
    const Bytes contents = ActivationBytes(bytes, 0.9, 10);
    void* const buffer = fixture.NewMemory(contents);
    const auto refused = fixture.Offload(buffer, bytes);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
    EXPECT_EQ(fixture.HeldBytes(), 0);
    EXPECT_EQ(fixture.pipeline().Stats().failures, 1);
    EXPECT_EQ(fixture.Read(buffer, bytes), contents);
    // A smaller transfer is served.
    const Bytes zeros(static_cast<std::size_t>(bytes));
    void* const empty = fixture.NewMemory(zeros);
    const auto stored = fixture.Offload(empty, bytes);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_LE((*stored)->held_bytes(), 128 * kKiB);
    ASSERT_TRUE(fixture.Prefetch(*stored, buffer).ok());
    EXPECT_EQ(fixture.Read(buffer, bytes), zeros);
  }
}

TEST(CompressionPipelineMemoryTest, ChunksAreAFractionOfTheBuffer) {
  const std::int64_t bytes = 8 * kMiB;
  for (const int fraction : {1, 4, 16, 65536}) {
    PipelineFixture fixture({.memory = Memory::kPinned,
                             .pipeline = {.ring = {.slots = 2, .slot_bytes = 64 * kKiB},
                                          .threads = 2,
                                          .chunk_fraction = fraction}});
    void* const buffer = fixture.NewMemory(ActivationBytes(bytes, 0.5, 11));
    const Stored stored = fixture.Offload(buffer, bytes).value();
    const std::int64_t chunk = std::max(bytes / fraction / 2, 64 * kKiB);
    EXPECT_EQ(stored->held_bytes() % chunk, 0);
    EXPECT_EQ(stored->held_bytes() / chunk, fixture.pinned().Stats().live_count);
    // At most the begun chunk of each thread is unused.
    EXPECT_LT(stored->held_bytes() - stored->compressed_bytes(), 2 * chunk);
  }
}

TEST(CompressionPipelineOptionsTest, OutOfRangeAreRefused) {
  PipelineFixture fixture;
  const auto create = [&](const CompressionPipelineOptions& options) {
    const auto pipeline = CompressionPipeline::Create(&fixture.device(), &fixture.staging(),
                                                      &fixture.pages(), options);
    EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument) << pipeline.status();
    EXPECT_THAT(std::string(pipeline.status().message()), HasSubstr("expected"));
    return std::string(pipeline.status().message());
  };
  const StagingRingOptions ring = {.slots = 2, .slot_bytes = 8192};
  EXPECT_THAT(create({.ring = {.slots = 2, .slot_bytes = 8191}}), HasSubstr("slot_bytes 8191"));
  EXPECT_THAT(create({.ring = {.slots = 2, .slot_bytes = -8192}}), HasSubstr("slot_bytes -8192"));
  EXPECT_THAT(create({.ring = {.slots = 0, .slot_bytes = 8192}}), HasSubstr("slots 0"));
  EXPECT_THAT(create({.ring = ring, .threads = -1}), HasSubstr("threads -1"));
  EXPECT_THAT(create({.ring = ring, .threads = 10000}), HasSubstr("threads 10000"));
  EXPECT_THAT(create({.ring = ring, .chunk_fraction = 0}), HasSubstr("chunk_fraction 0"));
  EXPECT_THAT(create({.ring = ring, .chunk_fraction = 65537}), HasSubstr("chunk_fraction 65537"));
  EXPECT_THAT(create({.ring = ring, .mode = static_cast<ZeroValueMode>(7)}), HasSubstr("mode 7"));
  EXPECT_THAT(create({.ring = ring, .instruction_set = static_cast<ZeroValueInstructionSet>(9)}),
              HasSubstr("instruction set"));
  PagePool* const no_pages = nullptr;
  EXPECT_FALSE(CompressionPipeline::Create(nullptr, &fixture.staging(), &fixture.pages(), {}).ok());
  EXPECT_FALSE(CompressionPipeline::Create(&fixture.device(), nullptr, &fixture.pages(), {}).ok());
  EXPECT_FALSE(
      CompressionPipeline::Create(&fixture.device(), &fixture.staging(), no_pages, {}).ok());
}

TEST(CompressionPipelineOptionsTest, FollowTheProfile) {
  PipelineFixture fixture;
  const auto ring_bytes = [&](const CompressionPipelineOptions& options) {
    return CompressionPipeline::Create(&fixture.device(), &fixture.staging(), &fixture.pages(),
                                       options)
        .value()
        ->Stats()
        .ring_bytes;
  };
  ASSERT_EQ(std::getenv(kCompressionProfileVariable), nullptr);
  EXPECT_EQ(ring_bytes({}), 2 * 4 * kMiB);
  EXPECT_EQ(ring_bytes({.ring = {.slots = 2, .slot_bytes = 8192}}), 2 * 2 * 8192);

  CompressionProfile profile;
  profile.chunk_bytes = 13 * 8192;
  const std::string path = TemporaryFile("pipeline_profile.json");
  ASSERT_TRUE(WriteCompressionProfile(profile, path).ok());
  setenv(kCompressionProfileVariable, path.c_str(), 1);
  EXPECT_EQ(ring_bytes({.threads = 1}), 2 * 4 * 13 * 8192);
  setenv(kCompressionProfileVariable, "/nowhere/profile.json", 1);
  const auto refused =
      CompressionPipeline::Create(&fixture.device(), &fixture.staging(), &fixture.pages(), {});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("/nowhere/profile.json"));
  EXPECT_EQ(ring_bytes({.ring = {.slots = 2, .slot_bytes = 8192}, .threads = 1}), 2 * 2 * 8192);
  unsetenv(kCompressionProfileVariable);
}

TEST(CompressionPipelineArgumentsTest, OutOfRangeAreRefused) {
  PipelineFixture fixture;
  void* const memory = fixture.NewMemory(kMiB);
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
  };
  expect_refused(fixture.BeginOffload(nullptr, 1).get().status());
  expect_refused(fixture.BeginOffload(memory, -1).get().status());
  expect_refused(fixture.BeginOffload(memory, (std::int64_t{1} << 50) + 1).get().status());
  expect_refused(fixture.BeginOffload(memory, 1, {}, static_cast<ZeroValueWord>(3)).get().status());
  expect_refused(fixture.BeginPrefetch(nullptr, memory).get());
  expect_refused(fixture.BeginPrefetch(fixture.Offload(memory, 100).value(), nullptr).get());
  expect_refused(fixture.pipeline().Offload(memory, 1, ZeroValueWord::k32Bits, {}, nullptr));
  expect_refused(
      fixture.pipeline().Prefetch(fixture.Offload(memory, 100).value(), memory, {}, nullptr));
  const Stream unknown = {std::uint64_t{1} << 60};
  EXPECT_EQ(fixture.BeginOffload(memory, 1, unknown).get().status().code(),
            absl::StatusCode::kNotFound);
  // The device checks addresses: the transfer reports the error of its copy.
  EXPECT_EQ(fixture.BeginOffload(memory, 2 * kMiB).get().status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(fixture.Offload(memory, kMiB).ok());
}

}  // namespace
}  // namespace tidepool
