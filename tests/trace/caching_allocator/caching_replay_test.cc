// SPDX-License-Identifier: Apache-2.0
// Small traces with reserved bytes that follow by hand from the rules of PyTorch's allocator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/trace/caching_allocator/trace_run.h"
#include "tests/support/sizes.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;

// Builds a trace from steps such as Steps().Allocate("x", 5).Free("x").
class Steps {
 public:
  explicit Steps(TraceFormat format = TraceFormat::kPyTorchSnapshot) : builder_(format) {}

  Steps& Allocate(const std::string& id, std::int64_t bytes, const std::string& stream = "0") {
    EXPECT_TRUE(builder_.Allocate(id, bytes, Hint::kResident, stream, 0).ok());
    return *this;
  }
  Steps& Free(const std::string& id) {
    EXPECT_TRUE(builder_.Free(id, "0", 0));
    return *this;
  }
  Steps& Fail(std::int64_t bytes) {
    EXPECT_TRUE(builder_.Failure(bytes, Hint::kResident, "0", 0).ok());
    return *this;
  }
  Steps& GiveBack() {
    EXPECT_TRUE(builder_.Reserve({0, -kMiB}, "0", 0).ok());
    return *this;
  }
  Trace Build() { return builder_.Build(); }

 private:
  TraceBuilder builder_;
};

CachingReplayResult Replay(const Trace& trace, const std::string& settings = "",
                           std::int64_t memory = kMostCachingMemory) {
  const auto parsed = ParseCachingAllocatorSettings(settings);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto replay = ReplayCaching(trace, {.settings = *parsed, .memory_bytes = memory});
  EXPECT_TRUE(replay.ok()) << replay.status();
  return *replay;
}

// Returns the reserved MiB after each event.
std::vector<std::int64_t> Reserved(const Trace& trace, const std::string& settings = "",
                                   std::int64_t memory = kMostCachingMemory) {
  const auto parsed = ParseCachingAllocatorSettings(settings);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::int64_t> mib;
  for (caching_allocator::TraceRun run(trace, *parsed, memory); !run.IsAtEnd();) {
    run.Step();
    const std::int64_t bytes = run.allocator().reserved_bytes();
    EXPECT_EQ(bytes % kMiB, 0);
    mib.push_back(bytes / kMiB);
  }
  return mib;
}

TEST(CachingReplay, TakesSegmentsBySize) {
  const auto segment = [](std::int64_t bytes) {
    return Reserved(Steps().Allocate("x", bytes).Build())[0];
  };
  EXPECT_EQ(segment(1), 2);
  EXPECT_EQ(segment(kMiB), 2);
  EXPECT_EQ(segment(kMiB + 1), 20);
  EXPECT_EQ(segment(10 * kMiB - 512), 20);
  EXPECT_EQ(segment(10 * kMiB), 10);
  EXPECT_EQ(segment(10 * kMiB + 1), 12);
  EXPECT_EQ(segment(41 * kMiB), 42);
}

TEST(CachingReplay, RoundsTo512Bytes) {
  EXPECT_EQ(Replay(Steps().Allocate("x", 1).Build()).peak_allocated_bytes, 512);
  EXPECT_EQ(Replay(Steps().Allocate("x", 513).Build()).peak_allocated_bytes, 1024);
}

// A large block is divided if more than 1 MiB is left, a small one if 512 bytes are.
TEST(CachingReplay, KeepsRemaindersThatAreTooSmall) {
  EXPECT_EQ(Replay(Steps().Allocate("x", 11 * kMiB).Build()).peak_allocated_bytes, 12 * kMiB);
  EXPECT_EQ(Replay(Steps().Allocate("x", 11 * kMiB - 512).Build()).peak_allocated_bytes,
            11 * kMiB - 512);
  EXPECT_EQ(Replay(Steps().Allocate("x", kMiB - 512).Build()).peak_allocated_bytes, kMiB - 512);
}

// 8 + 8 MiB fit the segment of 20, the third block does not. A free block serves the next request
// of its size.
TEST(CachingReplay, SharesSegments) {
  EXPECT_THAT(Reserved(Steps()
                           .Allocate("a", 8 * kMiB)
                           .Allocate("b", 8 * kMiB)
                           .Allocate("c", 8 * kMiB)
                           .Free("a")
                           .Allocate("d", 7 * kMiB)
                           .Build()),
              ElementsAre(20, 20, 40, 40, 40));
}

// a and b are joined after both were freed, so 16 MiB fit without new memory.
TEST(CachingReplay, JoinsFreeNeighbours) {
  EXPECT_THAT(Reserved(Steps()
                           .Allocate("a", 8 * kMiB)
                           .Allocate("b", 8 * kMiB)
                           .Free("a")
                           .Free("b")
                           .Allocate("c", 16 * kMiB)
                           .Build()),
              ElementsAre(20, 20, 20, 20, 20));
}

TEST(CachingReplay, KeepsPoolsOfStreamsAndSizesApart) {
  EXPECT_THAT(Reserved(Steps()
                           .Allocate("a", 8 * kMiB)
                           .Free("a")
                           .Allocate("b", 8 * kMiB, "1")
                           .Allocate("c", 1000, "1")
                           .Allocate("d", 1000, "0")
                           .Build()),
              ElementsAre(20, 20, 40, 42, 44));
}

// With 30 MiB the segments of 10 MiB are released before 20 MiB are taken; with 29 the request is
// refused.
TEST(CachingReplay, ReleasesCachedSegmentsBeforeItRefuses) {
  const Trace trace = Steps()
                          .Allocate("keep", 10 * kMiB)
                          .Allocate("b", 10 * kMiB)
                          .Free("b")
                          .Allocate("c", 20 * kMiB)
                          .Build();
  EXPECT_THAT(Reserved(trace), ElementsAre(10, 20, 20, 40));
  EXPECT_THAT(Reserved(trace, "", 30 * kMiB), ElementsAre(10, 20, 20, 30));
  EXPECT_EQ(Replay(trace, "", 30 * kMiB).retries, 1);
  const CachingReplayResult refused = Replay(trace, "", 30 * kMiB - 1);
  EXPECT_EQ(refused.refused, 1);
  EXPECT_EQ(refused.first_refused_event, 3);
  EXPECT_EQ(refused.first_refused_bytes, 20 * kMiB);
  EXPECT_EQ(refused.free_reserved_bytes, 0);
  const auto minimum = MinimumCachingMemory(trace, {}, {});
  EXPECT_EQ(minimum->pool_bytes, 40 * kMiB);
  EXPECT_EQ(minimum->exact_pool_bytes, 30 * kMiB);
  EXPECT_EQ(minimum->serves_all_larger, true);
  EXPECT_EQ(minimum->exact_limit, ExactLimit::kNone);
}

// A segment of which a part is live cannot be released: 8 of 20 MiB are lost.
TEST(CachingReplay, CannotReleasePartsOfSegments) {
  const Trace trace = Steps()
                          .Allocate("a", 8 * kMiB)
                          .Allocate("b", 8 * kMiB)
                          .Free("a")
                          .Allocate("c", 12 * kMiB)
                          .Build();
  EXPECT_EQ(MinimumCachingMemory(trace, {}, {})->exact_pool_bytes, 32 * kMiB);
  EXPECT_EQ(Replay(trace, "", 31 * kMiB).free_reserved_bytes, 12 * kMiB);
  EXPECT_EQ(Replay(trace, "", 31 * kMiB).largest_free_bytes, 8 * kMiB);
}

// Granules of 20 MiB are appended: 8 + 8 fill most of the first one, c takes the last 4 MiB of it.
TEST(CachingReplay, GrowsExpandableSegments) {
  const Trace trace = Steps()
                          .Allocate("a", 8 * kMiB)
                          .Allocate("b", 8 * kMiB)
                          .Allocate("c", 24 * kMiB)
                          .Allocate("small", 1000)
                          .Build();
  EXPECT_THAT(Reserved(trace, "expandable_segments:True"), ElementsAre(20, 20, 40, 42));
  EXPECT_THAT(Reserved(trace), ElementsAre(20, 20, 44, 46));
}

// The model fills the hole of 8 MiB before it grows the segment, though the free end is smaller.
TEST(CachingReplay, FillsHolesOfExpandableSegmentsFirst) {
  EXPECT_THAT(Reserved(Steps()
                           .Allocate("a", 8 * kMiB)
                           .Allocate("b", 8 * kMiB)
                           .Free("a")
                           .Allocate("c", 3 * kMiB)
                           .Allocate("d", 5 * kMiB)
                           .Allocate("e", 4 * kMiB)
                           .Build(),
                       "expandable_segments:True"),
              ElementsAre(20, 20, 20, 20, 20, 20));
}

// Granules of a = [0, 30) MiB: the first one of 20 MiB is unmapped, though b keeps the second one.
// Then 20 MiB are mapped at its place.
TEST(CachingReplay, UnmapsGranulesOfExpandableSegments) {
  const Trace trace = Steps()
                          .Allocate("a", 30 * kMiB)
                          .Allocate("b", 10 * kMiB)
                          .Free("a")
                          .Allocate("c", 20 * kMiB, "1")
                          .Build();
  EXPECT_THAT(Reserved(trace, "expandable_segments:True"), ElementsAre(40, 40, 40, 60));
  EXPECT_THAT(Reserved(trace, "expandable_segments:True", 40 * kMiB), ElementsAre(40, 40, 40, 40));
  const CachingAllocatorSettings expandable = {.expandable_segments = true};
  EXPECT_EQ(MinimumCachingMemory(trace, expandable, {})->exact_pool_bytes, 40 * kMiB);
}

// 40 MiB are not divided, so they serve no request of 30 MiB. They serve one of 36 MiB, less than
// 20 MiB smaller.
TEST(CachingReplay, DoesNotDivideOversizeBlocks) {
  const auto steps = [](std::int64_t bytes) {
    return Steps().Allocate("a", 40 * kMiB).Free("a").Allocate("b", bytes).Build();
  };
  EXPECT_THAT(Reserved(steps(30 * kMiB), "max_split_size_mb:32"), ElementsAre(40, 40, 70));
  EXPECT_THAT(Reserved(steps(36 * kMiB), "max_split_size_mb:32"), ElementsAre(40, 40, 40));
  EXPECT_THAT(Reserved(steps(30 * kMiB)), ElementsAre(40, 40, 40));
}

// Only as many oversize blocks as the request needs are released, largest first.
TEST(CachingReplay, ReleasesOversizeBlocksAsNeeded) {
  EXPECT_THAT(Reserved(Steps()
                           .Allocate("a", 32 * kMiB)
                           .Allocate("b", 40 * kMiB)
                           .Allocate("c", 8 * kMiB)
                           .Free("a")
                           .Free("b")
                           .Free("c")
                           .Allocate("d", 38 * kMiB, "1")
                           .Allocate("e", 64 * kMiB)
                           .Build(),
                       "max_split_size_mb:32", 130 * kMiB),
              ElementsAre(32, 72, 92, 92, 92, 92, 130, 122));
}

// 12 and 14 MiB are rounded up to 12 and 16 with four steps from 8 to 16 MiB.
TEST(CachingReplay, RoundsToStepsOfPowersOfTwo) {
  EXPECT_THAT(Reserved(Steps().Allocate("a", 12 * kMiB).Allocate("b", 14 * kMiB + 1).Build(),
                       "roundup_power2_divisions:4"),
              ElementsAre(12, 28));
}

// 80 MiB are allowed, and 40 are the threshold. With 50 MiB taken, the request for c releases the
// segment of a; with 44, that for f releases the one of b.
TEST(CachingReplay, CollectsOldSegments) {
  const Trace trace = Steps()
                          .Allocate("a", 20 * kMiB)
                          .Free("a")
                          .Allocate("b", 30 * kMiB)
                          .Allocate("c", 1)
                          .Allocate("d", 12 * kMiB)
                          .Free("b")
                          .Allocate("e", 24 * kMiB)
                          .Free("e")
                          .Allocate("f", 32 * kMiB)
                          .Build();
  const std::string collects = "per_process_memory_fraction:0.8,garbage_collection_threshold:0.5";
  EXPECT_THAT(Reserved(trace, collects, 100 * kMiB),
              ElementsAre(20, 20, 50, 32, 44, 44, 44, 44, 46));
  EXPECT_THAT(Reserved(trace, "garbage_collection_threshold:0.5", 100 * kMiB),
              ElementsAre(20, 20, 50, 52, 52, 52, 52, 52, 84));
}

TEST(CachingReplay, FollowsReleasesOfRecordedAllocatorsFromPyTorch) {
  const auto steps = [](TraceFormat format) {
    return Steps(format).Allocate("a", 10 * kMiB).Free("a").GiveBack().GiveBack().Build();
  };
  EXPECT_THAT(Reserved(steps(TraceFormat::kPyTorchSnapshot)), ElementsAre(10, 10, 0, 0));
  EXPECT_THAT(Reserved(steps(TraceFormat::kNative)), ElementsAre(10, 10, 10, 10));
}

// A refused request is a demand like any other.
TEST(CachingReplay, ServesFailures) {
  const Trace trace = Steps().Allocate("a", 10 * kMiB).Fail(30 * kMiB).Fail(0).Build();
  EXPECT_THAT(Reserved(trace), ElementsAre(10, 40, 40));
  EXPECT_EQ(Replay(trace).peak_rounded_bytes, 40 * kMiB);
  EXPECT_EQ(Replay(trace, "", 39 * kMiB).refused, 1);
  EXPECT_EQ(MinimumCachingMemory(trace, {}, {})->exact_pool_bytes, 40 * kMiB);
}

// A refused allocation has no memory, so its free is skipped.
TEST(CachingReplay, SkipsFreesOfRefusedRequests) {
  const Trace trace = Steps().Allocate("a", 10 * kMiB).Free("a").Allocate("b", 1).Build();
  EXPECT_THAT(Reserved(trace, "", 2 * kMiB), ElementsAre(0, 0, 2));
  EXPECT_EQ(ReplayCaching(trace, {.memory_bytes = 2 * kMiB})->peak_reserved_bytes, 2 * kMiB);
  const auto stopped = ReplayCaching(trace, {.memory_bytes = 2 * kMiB, .stop_at_refusal = true});
  EXPECT_EQ(stopped->peak_reserved_bytes, 0);
}

TEST(CachingReplay, RefusesMoreThanAnyDevice) {
  Steps steps;
  for (int i = 0; i < 20; ++i) steps.Allocate(std::to_string(i), kMaxRequestBytes);
  steps.Fail(INT64_MAX);
  const Trace trace = steps.Build();
  EXPECT_EQ(Replay(trace).refused, 13);
  const auto minimum = MinimumCachingMemory(trace, {}, {});
  EXPECT_FALSE(minimum->exact_pool_bytes.has_value());
}

TEST(MinimumCachingMemory, AStopEndsTheSearch) {
  Steps steps;
  for (int i = 0; i < 100; ++i) steps.Allocate(std::to_string(i), 3 * kMiB);
  std::stop_source stop;
  stop.request_stop();
  const auto minimum = MinimumCachingMemory(steps.Build(), {}, {.stop = stop.get_token()});
  EXPECT_TRUE(absl::IsCancelled(minimum.status())) << minimum.status();
}

TEST(MinimumCachingMemory, SaysWhichLimitEndedTheSearch) {
  Steps steps;
  for (int i = 0; i < 100; ++i) steps.Allocate(std::to_string(i), 3 * kMiB);
  const Trace trace = steps.Build();
  const auto minimum = MinimumCachingMemory(trace, {}, {.most_steps = 50});
  EXPECT_EQ(minimum->pool_bytes, 340 * kMiB);
  EXPECT_FALSE(minimum->exact_pool_bytes.has_value());
  EXPECT_FALSE(minimum->serves_all_larger.has_value());
  EXPECT_EQ(minimum->exact_limit, ExactLimit::kSteps);
  const auto late = MinimumCachingMemory(trace, {}, {.time_limit_seconds = 0});
  EXPECT_EQ(late->pool_bytes, 340 * kMiB);
}

}  // namespace
}  // namespace tidepool
