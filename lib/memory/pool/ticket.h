// SPDX-License-Identifier: Apache-2.0
// Ticket: the work that a stream had been given when memory was freed on it. The memory belongs to
// that work as long as it may run.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_TICKET_H_
#define TIDEPOOL_LIB_MEMORY_POOL_TICKET_H_

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tidepool::pool {

struct Ticket {
  std::uint32_t clock = 0;     // the index of the stream's clock
  std::uint64_t position = 0;  // of that clock; it counts frees, and stands for the work before

  friend bool operator==(const Ticket& a, const Ticket& b) = default;
};

// Nearly always a single ticket, of the stream of the free. More when several streams used the
// memory.
using Tickets = absl::InlinedVector<Ticket, 1>;

// Adds a ticket, or moves the ticket of the same clock forward.
inline void AddTicket(Tickets& tickets, const Ticket& ticket) {
  for (Ticket& known : tickets) {
    if (known.clock != ticket.clock) continue;
    known.position = std::max(known.position, ticket.position);
    return;
  }
  tickets.push_back(ticket);
}

inline void AddTickets(Tickets& tickets, const Tickets& added) {
  for (const Ticket& ticket : added) AddTicket(tickets, ticket);
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_TICKET_H_
