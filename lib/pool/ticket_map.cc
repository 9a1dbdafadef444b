// Disjoint ranges in a B-tree; Remove splits the two that overlap its ends.
#include "lib/pool/ticket_map.h"

#include <algorithm>
#include <iterator>

namespace tidepool::pool {
namespace {

// Whether nobody can tell the work of one from the work of the other.
bool Alike(const Tickets& a, const Tickets& b, std::uint64_t joins_after) {
  return a.size() == 1 && b.size() == 1 && a[0].stream == b[0].stream &&
         a[0].position > joins_after && b[0].position > joins_after;
}

}  // namespace

void TicketMap::Add(std::int64_t begin, std::int64_t end, const Tickets& tickets,
                    std::uint64_t joins_after) {
  Range added{end, tickets};
  const auto join = [&](const Range& neighbour) {
    added.tickets[0].position = std::max(added.tickets[0].position, neighbour.tickets[0].position);
  };
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first == end &&
      Alike(tickets, next->second.tickets, joins_after)) {
    join(next->second);
    added.end = next->second.end;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second.end == begin && Alike(tickets, previous->second.tickets, joins_after)) {
      join(previous->second);
      previous->second = std::move(added);
      return;
    }
  }
  ranges_.emplace_hint(next, begin, std::move(added));
}

void TicketMap::Remove(std::int64_t begin, std::int64_t end) {
  SplitAt(begin);
  SplitAt(end);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
}

TicketMap::Ranges::const_iterator TicketMap::FirstEndingAfter(std::int64_t offset) const {
  auto range = ranges_.upper_bound(offset);
  if (range != ranges_.begin() && std::prev(range)->second.end > offset) --range;
  return range;
}

// Lets no range lie on both sides of `offset`.
void TicketMap::SplitAt(std::int64_t offset) {
  auto range = ranges_.lower_bound(offset);
  if (range == ranges_.begin()) return;
  Range& before = std::prev(range)->second;
  if (before.end <= offset) return;
  Range after = before;
  before.end = offset;
  ranges_.emplace_hint(range, offset, std::move(after));
}

}  // namespace tidepool::pool
