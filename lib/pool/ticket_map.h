// The tickets of free memory by address. They stay with the addresses, whatever free blocks the
// memory is merged into and split from, so that a part of a large block needs only the waits of
// that part.
#ifndef TIDEPOOL_LIB_POOL_TICKET_MAP_H_
#define TIDEPOOL_LIB_POOL_TICKET_MAP_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/btree_map.h"
#include "lib/pool/ticket.h"

namespace tidepool::pool {

// Ranges are [begin, end), of offsets. Not thread-safe.
class TicketMap {
 public:
  // Gives a range, which has none, its tickets. A neighbouring range with a ticket of the same
  // stream is joined to it, under the newer ticket, when both are newer than `joins_after`: the
  // position up to which anybody can know the stream's work to be over. O(log n).
  void Add(std::int64_t begin, std::int64_t end, const Tickets& tickets, std::uint64_t joins_after);
  // Takes the tickets off a range. O(log n + ranges in it).
  void Remove(std::int64_t begin, std::int64_t end);

  // Calls `visit(ticket)` for each ticket that a range has a part of, until it returns false.
  // Returns whether it never did.
  template <typename Visit>
  bool ForEach(std::int64_t begin, std::int64_t end, Visit visit) const {
    for (auto range = FirstEndingAfter(begin); range != ranges_.end() && range->first < end;
         ++range) {
      for (const Ticket& ticket : range->second.tickets) {
        if (!visit(ticket)) return false;
      }
    }
    return true;
  }

  std::size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    std::int64_t end;
    Tickets tickets;
  };
  using Ranges = absl::btree_map<std::int64_t, Range>;  // by begin

  Ranges::const_iterator FirstEndingAfter(std::int64_t offset) const;
  void SplitAt(std::int64_t offset);

  Ranges ranges_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_TICKET_MAP_H_
