// SPDX-License-Identifier: Apache-2.0
// Random transfers out and in by several threads, on a device with random delays and faults: the
// bytes that come back equal the bytes that left.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/copies/pipeline/pipeline_fixture.h"

namespace tidepool {
namespace {

// A buffer on the device, stored, or in flight.
struct Buffer {
  Bytes contents;
  void* memory = nullptr;
  Stored stored;

  std::int64_t bytes() const { return static_cast<std::int64_t>(contents.size()); }
};

void Shuffle(PipelineFixture& fixture, std::uint64_t seed, bool with_faults) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  std::vector<Buffer> buffers(6);
  for (Buffer& buffer : buffers) {
    buffer.contents = ActivationBytes(static_cast<std::int64_t>(below(300'000)),
                                      static_cast<double>(below(11)) / 10, random());
    buffer.memory = fixture.NewMemory(buffer.contents);
  }
  for (int round = 0; round < 40; ++round) {
    if (with_faults && below(3) == 0) {
      fixture.device().FailCall(HostDevice::Call::kAny, static_cast<std::int64_t>(below(30)) + 1);
    }
    std::vector<std::pair<Buffer*, std::future<absl::StatusOr<Stored>>>> offloads;
    std::vector<std::pair<Buffer*, std::future<absl::Status>>> prefetches;
    for (Buffer& buffer : buffers) {
      if (below(2) == 0) continue;
      const ZeroValueWord word = below(2) == 0 ? ZeroValueWord::k16Bits : ZeroValueWord::k32Bits;
      if (buffer.stored == nullptr) {
        offloads.emplace_back(&buffer,
                              fixture.BeginOffload(buffer.memory, buffer.bytes(), {}, word));
      } else {
        prefetches.emplace_back(&buffer, fixture.BeginPrefetch(buffer.stored, buffer.memory));
      }
    }
    for (auto& [buffer, offload] : offloads) {
      absl::StatusOr<Stored> stored = offload.get();
      if (!stored.ok()) continue;
      buffer->stored = *std::move(stored);
    }
    for (auto& [buffer, prefetch] : prefetches) {
      if (prefetch.get().ok()) buffer->stored.reset();
    }
    if (with_faults) fixture.device().FailCall(HostDevice::Call::kAny, 0);
    for (Buffer& buffer : buffers) {
      if (buffer.stored != nullptr) {
        // After a failed prefetch the contents are undefined.
        fixture.Write(buffer.memory, Bytes(buffer.contents.size(), std::byte{0xee}));
      } else {
        ASSERT_EQ(fixture.Read(buffer.memory, buffer.bytes()), buffer.contents);
      }
    }
  }
  for (Buffer& buffer : buffers) {
    if (buffer.stored != nullptr) {
      ASSERT_TRUE(fixture.Prefetch(buffer.stored, buffer.memory).ok());
      ASSERT_EQ(fixture.Read(buffer.memory, buffer.bytes()), buffer.contents);
      buffer.stored.reset();
    }
    fixture.Free(buffer.memory);
  }
  EXPECT_EQ(fixture.HeldBytes(), 0);
}

struct PropertyCase {
  const char* name;
  PipelineFixtureOptions options;
};
void PrintTo(const PropertyCase& property_case, std::ostream* out) { *out << property_case.name; }

class PipelinePropertyTest : public ::testing::TestWithParam<PropertyCase> {};
INSTANTIATE_TEST_SUITE_P(
    , PipelinePropertyTest,
    ::testing::Values(
        PropertyCase{"usual", {}},
        PropertyCase{"one_slot_one_thread",
                     {.pipeline = {.ring = {.slots = 1, .slot_bytes = 8 * kKiB}, .threads = 1}}},
        PropertyCase{"many_threads",
                     {.pipeline = {.ring = {.slots = 16, .slot_bytes = 16 * kKiB}, .threads = 8}}},
        PropertyCase{"small_pages",
                     {.pages = {.page_bytes = 4 * kKiB, .max_bytes = 64 * kMiB},
                      .pipeline = {.ring = {.slots = 2, .slot_bytes = 64 * kKiB}}}},
        PropertyCase{
            "pinned",
            {.memory = Memory::kPinned,
             .pipeline = {.ring = {.slots = 2, .slot_bytes = 64 * kKiB}, .chunk_fraction = 16}}},
        PropertyCase{"slow_link",
                     {.device = {.memory_bytes = 64 * kMiB,
                                 .copy_bytes_per_second = 2e9,
                                 .copy_latency_ns = 20'000}}}),
    [](const auto& test) { return test.param.name; });

TEST_P(PipelinePropertyTest, ContentsStayAsTheyAre) {
  PipelineFixture fixture(GetParam().options);
  Shuffle(fixture, 1, false);
  EXPECT_EQ(fixture.pipeline().Stats().failures, 0);
}

TEST_P(PipelinePropertyTest, ContentsSurviveFaults) {
  PipelineFixture fixture(GetParam().options);
  Shuffle(fixture, 2, true);
  EXPECT_GT(fixture.pipeline().Stats().failures, 0);
}

TEST_P(PipelinePropertyTest, ThreadsShareIt) {
  PipelineFixture fixture(GetParam().options);
  std::vector<std::thread> threads;
  const std::int64_t bytes = 100 * kKiB + 3;
  std::vector<void*> memory;
  for (int i = 0; i < 4; ++i) {
    memory.push_back(fixture.NewMemory(ActivationBytes(bytes, 0.1 * (i + 1), i)));
  }
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&fixture, buffer = memory[i]] {
      for (int round = 0; round < 20; ++round) {
        const auto stored = fixture.Offload(buffer, bytes);
        ASSERT_TRUE(stored.ok()) << stored.status();
        ASSERT_TRUE(fixture.Prefetch(*stored, buffer).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fixture.Read(memory[i], bytes), ActivationBytes(bytes, 0.1 * (i + 1), i));
  }
  EXPECT_EQ(fixture.HeldBytes(), 0);
}

}  // namespace
}  // namespace tidepool
