// SPDX-License-Identifier: Apache-2.0
// The tickets of free blocks against a model that keeps the tickets of every single offset.
#include "lib/memory/pool/ticket_lists.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "lib/memory/blocks/block_map.h"

namespace tidepool::pool {
namespace {

using blocks::BlockMap;

constexpr std::int64_t kOffsets = 80;

// Blocks of an arena and the tickets of those that are free, kept together as the pool does.
class Blocks {
 public:
  BlockMap map{kOffsets, 1};
  TicketLists lists;

  BlockId FreeOr(BlockId block) const {
    return block == kNoBlock || map.used(block) ? kNoBlock : block;
  }
  BlockId Take(const Placement& placement, std::int64_t bytes) {
    const std::int64_t begin = map.OffsetOf(placement, bytes);
    const BlockId taken = map.Allocate(placement, bytes);
    lists.Take(placement.block, begin, begin + bytes, FreeOr(map.Previous(taken)),
               FreeOr(map.Next(taken)));
    return taken;
  }
  void Free(BlockId block, const Tickets& tickets, std::uint64_t joins_after) {
    const BlockId before = FreeOr(map.Previous(block));
    const BlockId after = FreeOr(map.Next(block));
    const std::int64_t begin = map.offset(block);
    const std::int64_t end = begin + map.bytes(block);
    lists.Merge(before, begin, end, tickets, after, map.Free(block), joins_after);
  }
  Tickets At(std::int64_t offset) const {
    BlockId block = map.First();
    while (map.offset(block) + map.bytes(block) <= offset) block = map.Next(block);
    Tickets tickets;
    lists.ForEach(block, offset, offset + 1, [&](const Ticket& ticket) {
      tickets.push_back(ticket);
      return true;
    });
    return tickets;
  }
};

TEST(TicketLists, KeepTheTicketsOfEveryOffset) {
  std::mt19937_64 random(3);
  Blocks blocks;
  std::vector<Tickets> slow(kOffsets);
  std::vector<BlockId> live;
  std::uint64_t position = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto bytes = 1 + static_cast<std::int64_t>(random() % 12);
    const BlockId fit =
        random() % 2 == 0 ? blocks.map.SmallestFit(bytes) : blocks.map.HighestFit(bytes);
    if (fit != kNoBlock && random() % 2 == 0) {
      const std::int64_t room = blocks.map.bytes(fit) - bytes;
      const Placement placements[] = {
          Placement::LowEnd(fit), Placement::HighEnd(fit),
          Placement::At(fit,
                        blocks.map.offset(fit) + static_cast<std::int64_t>(random() % (room + 1)))};
      live.push_back(blocks.Take(placements[random() % 3], bytes));
      const std::int64_t begin = blocks.map.offset(live.back());
      for (std::int64_t at = begin; at < begin + bytes; ++at) slow[at] = {};
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      Tickets tickets = {{static_cast<std::uint32_t>(random() % 3), ++position}};
      if (random() % 4 == 0) tickets.push_back({3, ++position});
      const std::int64_t begin = blocks.map.offset(live.back());
      const std::int64_t end = begin + blocks.map.bytes(live.back());
      for (std::int64_t at = begin; at < end; ++at) slow[at] = tickets;
      blocks.Free(live.back(), tickets, UINT64_MAX);
      live.pop_back();
    }
    if (random() % 64 == 0) blocks.lists.Shrink(kOffsets + 2, [](const Ticket&) { return true; });
    for (std::int64_t at = 0; at < kOffsets; ++at) ASSERT_EQ(blocks.At(at), slow[at]) << i;
  }
  for (const BlockId block : live) blocks.Free(block, {{0, ++position}}, UINT64_MAX);
  blocks.Take(Placement::LowEnd(blocks.map.First()), kOffsets);
  EXPECT_EQ(blocks.lists.size(), 0U);
}

TEST(TicketLists, JoinNeighboursThatNobodyCanTellApart) {
  Blocks blocks;
  std::vector<BlockId> parts;
  for (int i = 0; i < 5; ++i) {
    parts.push_back(blocks.Take(Placement::LowEnd(blocks.map.SmallestFit(10)), 10));
  }
  blocks.Free(parts[0], {{7, 3}}, 2);
  blocks.Free(parts[2], {{7, 5}}, 2);
  EXPECT_EQ(blocks.lists.size(), 2U);
  blocks.Free(parts[1], {{7, 4}}, 2);  // joins both
  EXPECT_EQ(blocks.lists.size(), 1U);
  EXPECT_EQ(blocks.At(0), (Tickets{{7, 5}}));
  blocks.Free(parts[3], {{7, 6}}, 5);  // an event was recorded in between
  blocks.Free(parts[4], {{8, 9}}, 5);  // another stream
  EXPECT_EQ(blocks.lists.size(), 3U);
  EXPECT_EQ(blocks.At(29), (Tickets{{7, 5}}));
}

TEST(TicketLists, DropWorkThatHasFinished) {
  Blocks blocks;
  std::vector<BlockId> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(blocks.Take(Placement::LowEnd(blocks.map.SmallestFit(10)), 10));
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    blocks.Free(parts[i], {{1, i}, {2, 5}}, UINT64_MAX);
  }
  blocks.lists.Shrink(kOffsets, [](const Ticket& ticket) { return ticket == Ticket{1, 1}; });
  EXPECT_EQ(blocks.lists.size(), 1U);
  EXPECT_EQ(blocks.At(9), Tickets());
  EXPECT_EQ(blocks.At(10), (Tickets{{1, 1}, {2, 5}}));
  EXPECT_EQ(blocks.At(20), Tickets());
}

// The joined pieces keep the latest work of every stream.
TEST(TicketLists, JoinNeighboursWhenTheyShrink) {
  constexpr std::int64_t kPieces = 200;
  BlockMap map(kPieces, 1);
  TicketLists lists;
  for (std::int64_t at = 0; at < kPieces; ++at) {
    const Tickets tickets = {{static_cast<std::uint32_t>(at % 3), static_cast<std::uint64_t>(at)}};
    lists.Merge(at == 0 ? kNoBlock : map.First(), at, at + 1, tickets, kNoBlock, map.First(),
                UINT64_MAX);
  }
  ASSERT_EQ(lists.size(), std::size_t{kPieces});
  lists.Shrink(map.First() + 1, [](const Ticket&) { return true; });
  EXPECT_LE(lists.size(), TicketLists::kMostAfterShrink);
  for (std::int64_t at = 0; at < kPieces; ++at) {
    bool has_own = false;
    lists.ForEach(map.First(), at, at + 1, [&](const Ticket& ticket) {
      has_own |= ticket.clock == at % 3 && ticket.position >= static_cast<std::uint64_t>(at);
      return true;
    });
    ASSERT_TRUE(has_own) << at;
  }
  // The list goes on as before.
  lists.Take(map.First(), 0, kPieces, kNoBlock, kNoBlock);
  EXPECT_EQ(lists.size(), 0U);
}

TEST(TicketLists, StopWhenTheVisitorSaysSo) {
  Blocks blocks;
  const BlockId low = blocks.Take(Placement::LowEnd(blocks.map.First()), 10);
  const BlockId high = blocks.Take(Placement::LowEnd(blocks.map.SmallestFit(10)), 10);
  blocks.Free(low, {{1, 1}}, 0);
  blocks.Free(high, {{2, 1}}, 0);
  int visited = 0;
  const BlockId block = blocks.map.First();
  EXPECT_FALSE(blocks.lists.ForEach(block, 0, 20, [&](const Ticket&) { return ++visited < 1; }));
  EXPECT_EQ(visited, 1);
  EXPECT_TRUE(blocks.lists.ForEach(block, 20, 30, [](const Ticket&) { return false; }));
}

}  // namespace
}  // namespace tidepool::pool
