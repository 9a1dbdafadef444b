// SPDX-License-Identifier: Apache-2.0
// Settings of recorded traces: fields of snapshots, and padding that addresses show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/sizes.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

CachingAllocatorSettings Recorded(std::vector<TraceSetting> settings) {
  TraceBuilder builder(TraceFormat::kPyTorchSnapshot);
  builder.SetAllocatorSettings(std::move(settings));
  return RecordedCachingSettings(builder.Build());
}

TEST(RecordedCachingSettings, AreDefaultsWhenUnknown) {
  EXPECT_EQ(Recorded({}), CachingAllocatorSettings());
  EXPECT_EQ(Recorded({{"PYTORCH_CUDA_ALLOC_CONF", ""},
                      {"max_split_size", "-1"},
                      {"garbage_collection_threshold", "0"},
                      {"expandable_segments", "False"},
                      {"pinned_num_register_threads", "1"},
                      {"roundup_power2_divisions", "1:0,2:0,4:0,32768:0"}}),
            CachingAllocatorSettings());
}

TEST(RecordedCachingSettings, AreThoseOfTheFile) {
  const CachingAllocatorSettings settings = Recorded(
      {{"PYTORCH_CUDA_ALLOC_CONF", "large_segment_size_mb:32,per_process_memory_fraction:0.5"},
       {"max_split_size", "134217728"},
       {"garbage_collection_threshold", "0.75"},
       {"expandable_segments", "True"},
       {"roundup_power2_divisions", "1:0,2:4,4:4"}});
  EXPECT_EQ(settings.large_segment_bytes, 32 * kMiB);
  EXPECT_EQ(settings.memory_fraction, 0.5);
  EXPECT_EQ(settings.max_split_bytes, 128 * kMiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.75);
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.roundup_power2_divisions[1], 4);
}

TEST(RecordedCachingSettings, SkipUnknownValues) {
  EXPECT_EQ(Recorded({{"PYTORCH_CUDA_ALLOC_CONF", "a_new_key:1"},
                      {"max_split_size", "big"},
                      {"expandable_segments", "Perhaps"},
                      {"roundup_power2_divisions", "x"}}),
            CachingAllocatorSettings());
}

// Builds a trace of live blocks at addresses.
Trace BlocksAt(const std::vector<std::pair<std::string, std::int64_t>>& blocks) {
  TraceBuilder builder(TraceFormat::kPyTorchSnapshot);
  for (const auto& [id, bytes] : blocks) {
    EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "0", 0).ok());
  }
  return builder.Build();
}

std::int64_t PaddingOf(const Trace& trace) { return RecordedCachingSettings(trace).padding_bytes; }

TEST(RecordedPadding, IsSeenWhereBlocksAreFurtherApart) {
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 512}, {"0x1400", 512}})), 32);
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1400", 512}, {"0x1000", 481}})), 32);
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 512}, {"refused request 0", 9}, {"0x1400", 512}})), 32);
}

TEST(RecordedPadding, IsNotSeenOtherwise) {
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 512}, {"0x1200", 512}})), 0);  // would overlap
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 480}, {"0x1200", 480}})), 0);  // equal with padding
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 512}, {"0x9000", 512}})), 0);  // no neighbours
  EXPECT_EQ(PaddingOf(BlocksAt({{"0x1000", 512}, {"x", 512}})), 0);       // no addresses
  EXPECT_EQ(PaddingOf(BlocksAt({})), 0);
}

}  // namespace
}  // namespace tidepool
