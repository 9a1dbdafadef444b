// The ticket map against a model that keeps the tickets of every single offset.
#include "lib/pool/ticket_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::pool {
namespace {

constexpr int kOffsets = 60;

class SlowTicketMap {
 public:
  void Set(std::int64_t begin, std::int64_t end, const Tickets& tickets) {
    for (std::int64_t at = begin; at < end; ++at) tickets_[at] = tickets;
  }
  bool IsEmpty(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t at = begin; at < end; ++at) {
      if (!tickets_[at].empty()) return false;
    }
    return true;
  }
  const Tickets& At(std::int64_t offset) const { return tickets_[offset]; }

 private:
  std::vector<Tickets> tickets_ = std::vector<Tickets>(kOffsets);
};

Tickets At(const TicketMap& map, std::int64_t offset) {
  Tickets tickets;
  map.ForEach(offset, offset + 1, [&](const Ticket& ticket) {
    tickets.push_back(ticket);
    return true;
  });
  return tickets;
}

TEST(TicketMap, KeepsTheTicketsOfEveryOffset) {
  std::mt19937_64 random(3);
  TicketMap map;
  SlowTicketMap slow;
  std::uint64_t position = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::int64_t begin = static_cast<std::int64_t>(random() % kOffsets);
    const std::int64_t end = begin + 1 + static_cast<std::int64_t>(random() % (kOffsets - begin));
    if (random() % 2 == 0) {
      map.Remove(begin, end);
      slow.Set(begin, end, {});
    } else if (slow.IsEmpty(begin, end)) {
      Tickets tickets = {{1 + random() % 3, ++position}};
      if (random() % 4 == 0) tickets.push_back({4 + random() % 2, ++position});
      map.Add(begin, end, tickets, UINT64_MAX);
      slow.Set(begin, end, tickets);
    }
    for (std::int64_t at = 0; at < kOffsets; ++at) ASSERT_EQ(At(map, at), slow.At(at));
  }
}

TEST(TicketMap, JoinsNeighboursThatNobodyCanTellApart) {
  TicketMap map;
  map.Add(0, 10, {{7, 3}}, 2);
  map.Add(20, 30, {{7, 5}}, 2);
  EXPECT_EQ(map.size(), 2U);
  map.Add(10, 20, {{7, 4}}, 2);  // joins both
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(At(map, 0), (Tickets{{7, 5}}));
  map.Add(30, 40, {{7, 6}}, 5);  // an event was recorded in between
  map.Add(40, 50, {{8, 9}}, 5);  // another stream
  EXPECT_EQ(map.size(), 3U);
  EXPECT_EQ(At(map, 29), (Tickets{{7, 5}}));
}

TEST(TicketMap, StopsWhenTheVisitorSaysSo) {
  TicketMap map;
  map.Add(0, 10, {{1, 1}}, 0);
  map.Add(10, 20, {{2, 1}}, 0);
  int visited = 0;
  EXPECT_FALSE(map.ForEach(0, 20, [&](const Ticket&) { return ++visited < 1; }));
  EXPECT_EQ(visited, 1);
  EXPECT_TRUE(map.ForEach(20, 30, [](const Ticket&) { return false; }));
}

}  // namespace
}  // namespace tidepool::pool
