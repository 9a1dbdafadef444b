// SPDX-License-Identifier: Apache-2.0
// The block map by hand: splitting, merging, ranges, copies, and an invariant walker that notices.
#include "lib/memory/blocks/block_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "lib/memory/blocks/few_blocks.h"

namespace tidepool::blocks {
namespace {

std::vector<std::int64_t> Offsets(const BlockMap& map) {
  std::vector<std::int64_t> offsets;
  for (BlockId id = map.First(); id != kNoBlock; id = map.Next(id))
    offsets.push_back(map.offset(id));
  return offsets;
}

TEST(BlockMap, OfNoBytesHasNoBlocks) {
  BlockMap map(0, 512);
  EXPECT_EQ(map.First(), kNoBlock);
  EXPECT_EQ(map.SmallestFit(512), kNoBlock);
  EXPECT_EQ(map.LowestFit(512), kNoBlock);
  EXPECT_EQ(map.HighestFit(512), kNoBlock);
  EXPECT_EQ(map.ExactFit(512), kNoBlock);
  EXPECT_EQ(map.Covering(0, 512), kNoBlock);
  EXPECT_EQ(map.Largest(), kNoBlock);
  EXPECT_EQ(map.Find(0), kNoBlock);
  EXPECT_TRUE(map.CheckInvariants().ok());
}

TEST(BlockMap, PlacesAtBothEndsAndInside) {
  BlockMap map(10 * 512, 512);
  const BlockId low = map.Allocate(Placement::LowEnd(map.First()), 512);
  const BlockId high = map.Allocate(Placement::HighEnd(map.Next(low)), 1024);
  const BlockId inside = map.Allocate(Placement::At(map.Covering(4 * 512, 512), 4 * 512), 512);
  EXPECT_EQ(map.offset(low), 0);
  EXPECT_EQ(map.offset(high), 8 * 512);
  EXPECT_EQ(map.offset(inside), 4 * 512);
  EXPECT_EQ(Offsets(map), (std::vector<std::int64_t>{0, 512, 4 * 512, 5 * 512, 8 * 512}));
  EXPECT_EQ(map.live_bytes(), 4 * 512);
  EXPECT_EQ(map.Covering(4 * 512, 512), kNoBlock);   // used
  EXPECT_EQ(map.Covering(3 * 512, 1024), kNoBlock);  // reaches into a used block
  EXPECT_EQ(map.offset(map.Covering(2 * 512, 1024)), 512);
  ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
}

TEST(BlockMap, MergesWithBothNeighbours) {
  BlockMap map(4 * 512, 512);
  std::vector<BlockId> used;
  for (int i = 0; i < 4; ++i)
    used.push_back(map.Allocate(Placement::LowEnd(map.SmallestFit(512)), 512));
  EXPECT_EQ(map.SmallestFit(512), kNoBlock);
  map.Free(used[0]);
  map.Free(used[2]);
  EXPECT_EQ(Offsets(map).size(), 4);
  const BlockId merged = map.Free(used[1]);
  EXPECT_EQ(map.offset(merged), 0);
  EXPECT_EQ(map.bytes(merged), 3 * 512);
  EXPECT_EQ(map.Free(used[3]), merged);
  EXPECT_EQ(map.bytes(merged), 4 * 512);
  EXPECT_TRUE(map.CheckInvariants().ok());
}

TEST(BlockMap, AnswersEachQuestionExactly) {
  // Holes of 3, 1, 2, 1 and 4 granules, in address order, between used granules.
  BlockMap map(17 * 512, 512);
  std::vector<BlockId> holes;
  for (const int granules : {3, 1, 2, 1, 4}) {
    holes.push_back(map.Allocate(Placement::LowEnd(map.LowestFit(512)), granules * 512));
    map.Allocate(Placement::LowEnd(map.LowestFit(512)), 512);
  }
  ASSERT_EQ(map.bytes(map.LowestFit(512)), 512);  // the wilderness
  map.Allocate(Placement::LowEnd(map.LowestFit(512)), 512);
  for (const BlockId hole : holes) map.Free(hole);
  EXPECT_EQ(map.SmallestFit(512), holes[1]);  // lowest of two equals
  EXPECT_EQ(map.SmallestFit(3 * 512), holes[0]);
  EXPECT_EQ(map.ExactFit(512), holes[1]);
  EXPECT_EQ(map.ExactFit(5 * 512), kNoBlock);
  EXPECT_EQ(map.LowestFit(2 * 512), holes[0]);
  EXPECT_EQ(map.HighestFit(512), holes[4]);
  EXPECT_EQ(map.HighestFit(5 * 512), kNoBlock);
  EXPECT_EQ(map.Largest(), holes[4]);
  EXPECT_TRUE(map.CheckInvariants().ok());
}

TEST(BlockMap, FindsUsedBlocksByTheirStartOnly) {
  BlockMap map(8 * 512, 512);
  const BlockId a = map.Allocate(Placement::LowEnd(map.First()), 1024);
  EXPECT_EQ(map.Find(0), a);
  EXPECT_EQ(map.Find(512), kNoBlock);
  EXPECT_EQ(map.Find(1024), kNoBlock);  // free
  EXPECT_EQ(map.Find(-512), kNoBlock);
  map.Free(a);
  EXPECT_EQ(map.Find(0), kNoBlock);
}

TEST(BlockMap, SplitsUsedBlocks) {
  for (const bool is_found : {false, true}) {
    BlockMap blocks(4096, 512);
    const BlockId used = blocks.Allocate(Placement::At(blocks.First(), 512), 2048);
    if (is_found) {
      ASSERT_EQ(blocks.Find(512), used);  // makes the table of starts
    }
    const BlockId rest = blocks.SplitUsed(used, 512);
    EXPECT_EQ(blocks.Find(512), used);
    EXPECT_EQ(blocks.Find(1024), rest);
    EXPECT_EQ(blocks.bytes(used), 512);
    EXPECT_EQ(blocks.bytes(rest), 1536);
    EXPECT_EQ(blocks.live_bytes(), 2048);
    EXPECT_TRUE(blocks.CheckInvariants().ok()) << blocks.CheckInvariants();
    blocks.Free(used);
    EXPECT_EQ(blocks.bytes(blocks.Free(rest)), 4096);
    EXPECT_TRUE(blocks.CheckInvariants().ok()) << blocks.CheckInvariants();
  }
}

TEST(BlockMap, KeepsReservedNames) {
  BlockMap blocks(4096, 512);
  EXPECT_TRUE(blocks.HasNames(10));
  blocks.ReserveNames(blocks.max_blocks() - 20);
  EXPECT_FALSE(blocks.HasNames(10));
  EXPECT_TRUE(blocks.HasNames());
  blocks.ReserveNames(blocks.max_blocks() - 3);
  EXPECT_FALSE(blocks.HasNames());
}

TEST(BlockMap, ACopyGoesItsOwnWay) {
  BlockMap map(8 * 512, 512);
  const BlockId a = map.Allocate(Placement::LowEnd(map.SmallestFit(512)), 512);
  BlockMap copy(map);
  copy.Free(a);
  EXPECT_EQ(map.live_bytes(), 512);
  EXPECT_EQ(copy.live_bytes(), 0);
  EXPECT_EQ(copy.bytes(copy.SmallestFit(512)), 8 * 512);
  EXPECT_EQ(map.bytes(map.SmallestFit(512)), 7 * 512);
  EXPECT_TRUE(map.CheckInvariants().ok());
  EXPECT_TRUE(copy.CheckInvariants().ok());
}

TEST(BlockMap, ReachesTheEndOfTheLargestArena) {
  for (const std::int64_t alignment : {std::int64_t{1}, std::int64_t{512}, std::int64_t{1} << 21}) {
    const std::int64_t capacity = MaxArenaBytes(alignment) & -alignment;
    BlockMap map(capacity, alignment);
    const BlockId high = map.Allocate(Placement::HighEnd(map.HighestFit(alignment)), alignment);
    const BlockId low = map.Allocate(Placement::LowEnd(map.SmallestFit(alignment)), alignment);
    EXPECT_EQ(map.offset(high), capacity - alignment);
    EXPECT_EQ(map.offset(low), 0);
    EXPECT_EQ(map.bytes(map.LowestFit(capacity - 2 * alignment)), capacity - 2 * alignment);
    EXPECT_EQ(map.bytes(map.ExactFit(capacity - 2 * alignment)), capacity - 2 * alignment);
    EXPECT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
    EXPECT_GE(map.max_blocks(), std::int64_t{1} << 20);
  }
}

TEST(BlockMap, GivesBackNamesThatNoBlockHas) {
  constexpr std::int64_t kBlocks = 20'000;
  BlockMap map((kBlocks + 1) * 512, 512);
  std::vector<BlockId> live;
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    live.push_back(map.Allocate(Placement::LowEnd(map.SmallestFit(512)), 512));
  }
  const BlockId high = live[kBlocks - 100];
  EXPECT_EQ(map.Shrink(), kBlocks + 3U);  // with both ends and the free block
  EXPECT_FALSE(map.HasManySpares());
  for (const BlockId block : live) {
    if (block == live[5] || block == high) continue;
    map.Free(block);
  }
  EXPECT_TRUE(map.HasManySpares());
  EXPECT_EQ(map.Shrink(), high + 2U);  // the name above it is that of the next, a free block
  EXPECT_FALSE(map.HasManySpares());
  EXPECT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
  EXPECT_EQ(map.Find(5 * 512), live[5]);
  EXPECT_EQ(map.Find((kBlocks - 100) * 512), high);
  // New names are low, and so the high ones are not needed again.
  EXPECT_LT(map.Next(map.Allocate(Placement::LowEnd(map.First()), 512)), 10U);
  map.Free(high);
  EXPECT_LT(map.Shrink(), 20U);
  EXPECT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
}

// A placement at a random offset splits one block into three, which placements at an end do not.
TEST(BlockMap, KeepsItsInvariantsUnderPlacementsAnywhere) {
  std::mt19937_64 random(7);
  BlockMap map(4096 * 512, 512);
  std::vector<BlockId> live;
  for (int i = 0; i < 100'000; ++i) {
    const std::int64_t bytes = (1 + static_cast<std::int64_t>(random() % 8)) * 512;
    const std::int64_t offset = static_cast<std::int64_t>(random() % 4096) * 512;
    const BlockId block = map.Covering(offset, bytes);
    if (block != kNoBlock) {
      live.push_back(map.Allocate(Placement::At(block, offset), bytes));
      ASSERT_EQ(map.Find(offset), live.back());
    } else if (!live.empty()) {
      const std::size_t victim = random() % live.size();
      map.Free(live[victim]);
      live[victim] = live.back();
      live.pop_back();
    }
    if (i % 1000 == 0) {
      ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
    }
  }
}

// An answer does not depend on the clue, and the map is sound after clues answered for so long that
// it dropped its indexes.
TEST(BlockMap, CluesChangeNoAnswer) {
  constexpr std::int64_t kGranules = 64;
  std::mt19937_64 random(11);
  BlockMap map(kGranules, 1);
  BlockMap without(kGranules, 1);
  std::vector<Clue> clues(100);
  std::vector<std::int64_t> live;  // offsets
  for (int step = 0; step < 50'000; ++step) {
    const bool is_steady = step / 5'000 % 2 == 1;  // then one place is asked for again and again
    const std::int64_t bytes = is_steady ? 3 : 1 + static_cast<std::int64_t>(random() % 8);
    const std::int64_t offset = is_steady ? 7 : static_cast<std::int64_t>(random() % kGranules);
    const BlockId block = map.Covering(offset, bytes, &clues[random() % clues.size()]);
    const BlockId expected = without.Covering(offset, bytes);
    ASSERT_EQ(block == kNoBlock, expected == kNoBlock);
    if (block != kNoBlock) {
      ASSERT_EQ(map.offset(block), without.offset(expected));
      map.Allocate(Placement::At(block, offset), bytes);
      without.Allocate(Placement::At(expected, offset), bytes);
      live.push_back(offset);
    } else if (!live.empty()) {
      if (!is_steady) std::swap(live[random() % live.size()], live.back());
      map.FreeAt(live.back());
      without.FreeAt(live.back());
      live.pop_back();
    }
    if (step % 512 == 0) {
      ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
      const BlockId smallest = map.SmallestFit(2);
      ASSERT_EQ(smallest == kNoBlock, without.SmallestFit(2) == kNoBlock);
    }
  }
}

TEST(BlockMap, GrowsAndShrinksAtItsEnd) {
  BlockMap map(0, 512, 8192);
  EXPECT_EQ(map.First(), kNoBlock);
  map.Resize(2048);
  EXPECT_EQ(map.bytes(map.SmallestFit(512)), 2048);
  EXPECT_EQ(map.LowestFit(512), map.First());
  const BlockId used = map.Allocate(Placement::LowEnd(map.First()), 1024);
  map.Resize(8192);  // the free block at the end grows
  EXPECT_EQ(map.bytes(map.SmallestFit(512)), 7168);
  EXPECT_EQ(map.HighestFit(7168), map.Last());
  ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
  map.Resize(1024);  // and is cut away
  EXPECT_EQ(map.SmallestFit(512), kNoBlock);
  EXPECT_EQ(map.Last(), used);
  ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
  map.Resize(1536);  // after a used block a new one begins
  EXPECT_EQ(map.bytes(map.LowestFit(512)), 512);
  map.Free(used);
  EXPECT_EQ(map.bytes(map.First()), 1536);
  map.Resize(0);
  EXPECT_EQ(map.First(), kNoBlock);
  ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
}

TEST(BlockMap, WalksFreeBlocksInTheOrderOfSizeAndAddress) {
  constexpr std::int64_t kCapacity = std::int64_t{1} << 30;
  BlockMap map(kCapacity, 512);
  std::mt19937_64 random(5);
  std::vector<BlockId> holes;
  for (int i = 0; i < 600; ++i) {  // one size often enough to crowd its bin
    const std::int64_t bytes = i % 3 == 0 ? 4096 : 512 * (1 + static_cast<int>(random() % 1000));
    holes.push_back(map.Allocate(Placement::LowEnd(map.SmallestFit(bytes)), bytes));
    map.Allocate(Placement::LowEnd(map.SmallestFit(512)), 512);
  }
  for (const BlockId hole : holes) map.Free(hole);
  std::vector<std::pair<std::int64_t, std::int64_t>> expected;
  for (BlockId id = map.First(); id != kNoBlock; id = map.Next(id)) {
    if (!map.used(id)) expected.emplace_back(map.bytes(id), map.offset(id));
  }
  std::sort(expected.begin(), expected.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> walked;
  for (BlockId id = map.SmallestFit(512); id != kNoBlock; id = map.NextBySize(id)) {
    walked.emplace_back(map.bytes(id), map.offset(id));
  }
  EXPECT_EQ(walked, expected);
}

// Few free blocks are in an array, many in an index, and in a large arena all are in the index. The
// number of free blocks swings through both limits of the array.
TEST(BlockMap, AnswersAlikeForFewAndManyFreeBlocks) {
  constexpr std::int64_t kCapacity = (std::int64_t{1} << 38) - 512;  // the largest with the array
  BlockMap map(kCapacity, 512);
  BlockMap indexed(kCapacity, 512, kCapacity + 512);
  ASSERT_TRUE(FewBlocks::Suits(Geometry(kCapacity, 512)));
  ASSERT_FALSE(FewBlocks::Suits(Geometry(kCapacity + 512, 512)));
  std::mt19937_64 random(3);
  std::vector<std::pair<BlockId, BlockId>> live;
  const auto expect_same = [&](BlockId block, BlockId other) {
    ASSERT_EQ(block == kNoBlock, other == kNoBlock);
    if (block == kNoBlock) return;
    ASSERT_EQ(map.offset(block), indexed.offset(other));
    ASSERT_EQ(map.bytes(block), indexed.bytes(other));
  };
  for (int i = 0; i < 60'000; ++i) {
    const std::size_t target = i / 500 % 2 == 0 ? 300 : 10;
    const std::int64_t bytes = 512 * (1 + static_cast<std::int64_t>(random() % 40));
    const BlockId fit = map.SmallestFit(bytes);
    const BlockId other = indexed.SmallestFit(bytes);
    ASSERT_NO_FATAL_FAILURE(expect_same(fit, other));
    ASSERT_NO_FATAL_FAILURE(expect_same(map.ExactFit(bytes), indexed.ExactFit(bytes)));
    ASSERT_NO_FATAL_FAILURE(expect_same(map.Largest(), indexed.Largest()));
    ASSERT_NO_FATAL_FAILURE(expect_same(map.NextBySize(fit), indexed.NextBySize(other)));
    if (random() % 310 < target && live.size() < 600) {
      const auto where = random() % 4 == 0 ? Placement::Where::kHighEnd : Placement::Where::kLowEnd;
      live.emplace_back(map.Allocate({fit, where, 0}, bytes),
                        indexed.Allocate({other, where, 0}, bytes));
    } else if (!live.empty()) {
      const std::size_t victim = random() % live.size();
      map.Free(live[victim].first);
      indexed.Free(live[victim].second);
      live[victim] = live.back();
      live.pop_back();
    }
    if (i % 97 == 0) {
      ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
    }
  }
  ASSERT_NE(map.SmallestFit(512), kNoBlock);
  EXPECT_EQ(map.SmallestFit(kCapacity + 1024), kNoBlock);
  EXPECT_EQ(map.SmallestFit(kMaxRequestBytes), kNoBlock);
}

// Compares with an array that has the state of every granule.
TEST(BlockMap, ExcludesAndIncludesRanges) {
  constexpr std::int64_t kGranules = 200;
  enum What { kFree, kUsed, kOut };
  BlockMap map(kGranules, 1);
  std::vector<What> model(kGranules, kFree);
  std::vector<BlockId> live;
  std::mt19937_64 random(3);
  const auto below = [&](std::size_t limit) { return static_cast<std::int64_t>(random() % limit); };
  const auto set = [&](std::int64_t begin, std::int64_t bytes, What what) {
    std::fill_n(model.begin() + begin, bytes, what);
  };
  for (int step = 0; step < 30'000; ++step) {
    const std::int64_t begin = below(kGranules);
    const std::int64_t bytes = 1 + below(std::min<std::size_t>(12, kGranules - begin));
    const BlockId covering = map.Covering(begin, bytes);
    const bool all_free = std::all_of(model.begin() + begin, model.begin() + begin + bytes,
                                      [](What what) { return what == kFree; });
    ASSERT_EQ(covering != kNoBlock, all_free);
    if (all_free && below(2) == 0) {
      live.push_back(map.Allocate(Placement::At(covering, begin), bytes));
      set(begin, bytes, kUsed);
    } else if (all_free) {
      map.Exclude(Placement::At(covering, begin), bytes);
      set(begin, bytes, kOut);
      EXPECT_EQ(map.Find(begin), kNoBlock);
    } else if (model[begin] == kOut) {
      BlockId block = map.First();
      while (map.offset(block) + map.bytes(block) <= begin) block = map.Next(block);
      ASSERT_TRUE(map.excluded(block));
      const std::int64_t end = std::min(begin + bytes, map.offset(block) + map.bytes(block));
      const BlockId merged = map.Include(block, begin, end);
      set(begin, end - begin, kFree);
      EXPECT_TRUE(map.offset(merged) <= begin && end <= map.offset(merged) + map.bytes(merged));
    } else if (!live.empty()) {
      std::swap(live[below(live.size())], live.back());
      set(map.offset(live.back()), map.bytes(live.back()), kFree);
      map.Free(live.back());
      live.pop_back();
    }
    ASSERT_EQ(map.live_bytes(), std::count(model.begin(), model.end(), kUsed));
    ASSERT_EQ(map.excluded_bytes(), std::count(model.begin(), model.end(), kOut));
    if (step % 100 == 0) {
      ASSERT_TRUE(map.CheckInvariants().ok()) << map.CheckInvariants();
    }
  }
}

}  // namespace
}  // namespace tidepool::blocks
