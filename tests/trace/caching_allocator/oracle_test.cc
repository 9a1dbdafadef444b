// SPDX-License-Identifier: Apache-2.0
// Random traces under all settings: the model against a slow and obvious one, the rules that its
// blocks obey, and the search for the smallest memory against a replay of every memory.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "lib/trace/caching_allocator/trace_run.h"
#include "tests/support/slow_caching_allocator.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {
namespace {

using Kind = TraceEvent::Kind;
using testing::SlowCachingAllocator;

constexpr std::int64_t kTightMemory = 300 * kMiB;

CachingAllocatorSettings Settings(const std::string& text) {
  const auto settings = ParseCachingAllocatorSettings(text);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return *settings;
}

const std::vector<std::string>& AllSettings() {
  static const auto* const all = new std::vector<std::string>{
      "",
      "expandable_segments:True",
      "max_split_size_mb:24",
      "max_split_size_mb:20,max_non_split_rounding_mb:40",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:[1:2,4:4,16:8,>:1]",
      "large_segment_size_mb:33",
      "large_segment_size_mb:12,expandable_segments:True",
      "expandable_segments:True,max_split_size_mb:32,roundup_power2_divisions:8",
      "per_process_memory_fraction:0.7",
      "per_process_memory_fraction:0.7,expandable_segments:True",
      "per_process_memory_fraction:0.9,garbage_collection_threshold:0.6",
      "per_process_memory_fraction:0.8,garbage_collection_threshold:0.5,max_split_size_mb:24",
  };
  return *all;
}

std::int64_t RandomBytes(std::mt19937& random) {
  const auto upTo = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  switch (random() % 8) {
    case 0:
      return upTo(2000);
    case 1:
    case 2:
      return upTo(kMiB);
    case 3:
    case 4:
      return kMiB + upTo(11 * kMiB);
    case 5:
      return 8 * kMiB + upTo(40 * kMiB);
    default: {
      constexpr std::int64_t kEdges[] = {
          512,           513,       kMiB,      kMiB + 1,      2 * kMiB,
          10 * kMiB - 1, 10 * kMiB, 20 * kMiB, 20 * kMiB + 1, 24 * kMiB,
      };
      return kEdges[random() % std::size(kEdges)];
    }
  }
}

// Returns a trace of three streams that fills and empties memory in turn. It has failures, and
// places where memory was given back.
Trace RandomTrace(unsigned seed, int events) {
  std::mt19937 random(seed);
  TraceBuilder builder(TraceFormat::kPyTorchSnapshot);
  std::vector<std::string> live;
  for (int i = 0; i < events; ++i) {
    const std::string stream = std::to_string(random() % 3);
    const unsigned share = i / 50 % 2 == 0 ? 60 : 40;
    const unsigned kind = random() % 100;
    if (kind == 99) {
      EXPECT_TRUE(builder.Reserve({0, -1}, stream, i).ok());
    } else if (kind == 98) {
      EXPECT_TRUE(builder.Failure(RandomBytes(random), Hint::kResident, stream, i).ok());
    } else if (kind < share || live.empty()) {
      live.push_back(std::to_string(i));
      EXPECT_TRUE(
          builder.Allocate(live.back(), RandomBytes(random), Hint::kResident, stream, i).ok());
    } else {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(builder.Free(live.back(), stream, i));
      live.pop_back();
    }
  }
  return builder.Build();
}

// Serves the events of a trace from the slow model.
class SlowRun {
 public:
  SlowRun(const Trace& trace, const CachingAllocatorSettings& settings, std::int64_t memory,
          SegmentOrder order)
      : trace_(trace), slow_(settings, memory, order) {}

  bool Step(std::size_t at) {
    const TraceEvent& event = trace_.events[at];
    switch (event.kind) {
      case Kind::kAllocate:
        is_served_[event.index] =
            slow_.Allocate(event.index, trace_.allocations[event.index].bytes, event.stream);
        return is_served_[event.index];
      case Kind::kFailure:
        if (!slow_.Allocate(UINT32_MAX, trace_.failures[event.index].bytes, event.stream)) {
          return false;
        }
        slow_.Free(UINT32_MAX);
        return true;
      case Kind::kFree:
        if (is_served_[event.index]) slow_.Free(event.index);
        return true;
      default:
        slow_.ReleaseAll();
        return true;
    }
  }

  const SlowCachingAllocator& slow() const { return slow_; }

 private:
  const Trace& trace_;
  SlowCachingAllocator slow_;
  std::map<std::uint32_t, bool> is_served_;
};

// Address and size by stream, pool, state and address.
using Blocks =
    std::multiset<std::tuple<std::uint32_t, bool, std::string, std::int64_t, std::int64_t>>;

Blocks BlocksOf(const SlowCachingAllocator& slow) {
  Blocks blocks;
  for (const auto& segment : slow.segments()) {
    for (const auto& block : segment.blocks) {
      if (block.state != SlowCachingAllocator::State::kFree) continue;
      blocks.insert({segment.stream, segment.is_small, "free", block.address, block.bytes});
    }
  }
  return blocks;
}

Blocks BlocksOf(const Heap& heap) {
  Blocks blocks;
  for (const bool is_small : {false, true}) {
    for (const BlockKey& key : heap.pool(is_small).free) {
      blocks.insert({key.stream, is_small, "free", key.address, key.bytes});
    }
  }
  return blocks;
}

void ExpectEqualRuns(const Trace& trace, const CachingAllocatorSettings& settings,
                     std::int64_t memory, SegmentOrder order) {
  TraceRun run(trace, settings, memory, order);
  SlowRun slow(trace, settings, memory, order);
  while (!run.IsAtEnd()) {
    const std::size_t at = run.at();
    const bool is_served = run.Step();
    ASSERT_EQ(is_served, slow.Step(at)) << "event " << at;
    ASSERT_EQ(run.allocator().reserved_bytes(), slow.slow().reserved()) << "event " << at;
    ASSERT_EQ(run.allocator().allocated_bytes(), slow.slow().allocated()) << "event " << at;
    ASSERT_EQ(BlocksOf(run.allocator().heap()), BlocksOf(slow.slow())) << "event " << at;
  }
}

class CachingAllocatorOracle : public ::testing::TestWithParam<std::string> {};

TEST_P(CachingAllocatorOracle, ReservesTheSameBytesAfterEveryEvent) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const Trace trace = RandomTrace(seed, 600);
    for (const std::int64_t memory : {kMostCachingMemory, kTightMemory, kTightMemory / 3}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", memory " << memory);
      const SegmentOrder order = seed % 2 == 0 ? SegmentOrder::kAscending : SegmentOrder::kFalling;
      ExpectEqualRuns(trace, Settings(GetParam()), memory, order);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CachingAllocatorOracle, FindsTheSmallestMemory) {
  for (unsigned seed = 100; seed < 104; ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = RandomTrace(seed, 120);
    const CachingAllocatorSettings settings = Settings(GetParam());
    const auto found = MinimumCachingMemory(trace, settings, {});
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(found->exact_pool_bytes.has_value());
    ASSERT_TRUE(found->serves_all_larger.has_value());
    std::int64_t smallest = -1;
    bool serves_all_larger = true;
    const auto serves = [&](std::int64_t memory) {
      const auto replay = ReplayCaching(
          trace, {.settings = settings, .memory_bytes = memory, .stop_at_refusal = true});
      return replay->refused == 0;
    };
    // Without a fraction of the memory, only multiples of 512 bytes and of segments can matter.
    const bool has_fraction = settings.memory_fraction > 0;
    const std::int64_t step = has_fraction ? kMiB / 4 : kMiB;
    const std::int64_t end = found->pool_bytes * (has_fraction ? 2 : 1) + 2 * step;
    for (std::int64_t memory = 0; memory < end; memory += step) {
      const bool is_served = serves(memory);
      if (is_served && smallest < 0) smallest = memory;
      if (!is_served && smallest >= 0) serves_all_larger = false;
    }
    EXPECT_LE(*found->exact_pool_bytes, smallest);
    EXPECT_GT(*found->exact_pool_bytes, smallest - step);
    EXPECT_TRUE(serves(*found->exact_pool_bytes));
    EXPECT_FALSE(serves(*found->exact_pool_bytes - 1));
    if (has_fraction) {
      EXPECT_TRUE(serves_all_larger || !*found->serves_all_larger);
    } else {
      EXPECT_EQ(*found->serves_all_larger, serves_all_larger);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, CachingAllocatorOracle, ::testing::ValuesIn(AllSettings()),
                         [](const auto& test) { return std::to_string(test.index); });

// All blocks of a segment lie side by side, and no two neighbours are free or unmapped both.
TEST(CachingAllocatorBlocks, NeverOverlapAndAreJoined) {
  for (const std::string& text : AllSettings()) {
    SCOPED_TRACE(text);
    const Trace trace = RandomTrace(7, 800);
    TraceRun run(trace, Settings(text), kTightMemory);
    while (!run.IsAtEnd()) {
      run.Step();
      const CachingAllocator& allocator = run.allocator();
      const Heap& heap = allocator.heap();
      std::int64_t free = 0;
      for (const bool is_small : {false, true}) {
        for (const BlockKey& key : heap.pool(is_small).free) {
          const Block& block = heap.block(key.id);
          free += block.bytes;
          ASSERT_EQ(block.state, Block::State::kFree);
          if (block.next == kNoBlock) continue;
          const Block& next = heap.block(block.next);
          ASSERT_EQ(next.address, block.address + block.bytes);
          ASSERT_EQ(next.previous, key.id);
          ASSERT_NE(next.state, Block::State::kFree);
        }
      }
      ASSERT_EQ(allocator.reserved_bytes(), allocator.allocated_bytes() + free);
      ASSERT_LE(allocator.reserved_bytes(), kTightMemory);
    }
  }
}

TEST(PeakRoundedBytes, IsALowerBound) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Trace trace = RandomTrace(seed, 300);
    for (const std::string& text : AllSettings()) {
      const auto replay = ReplayCaching(trace, {.settings = Settings(text)});
      ASSERT_TRUE(replay.ok());
      EXPECT_LE(replay->peak_rounded_bytes, replay->peak_reserved_bytes);
      EXPECT_LE(replay->peak_allocated_bytes, replay->peak_reserved_bytes);
    }
  }
}

}  // namespace
}  // namespace tidepool::caching_allocator
