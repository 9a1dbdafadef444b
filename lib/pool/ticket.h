// A ticket stands for the work that a stream had been given when memory was freed on it. As long as
// that work may run, the memory belongs to it.
#ifndef TIDEPOOL_LIB_POOL_TICKET_H_
#define TIDEPOOL_LIB_POOL_TICKET_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tidepool::pool {

struct Ticket {
  std::uint32_t timeline = 0;  // the number of its stream
  std::uint64_t position = 0;  // counts the frees of the timeline: its work before this one

  friend bool operator==(const Ticket& a, const Ticket& b) = default;
};

// Nearly always one: of the stream of the free. More when other streams used the memory too.
using Tickets = absl::InlinedVector<Ticket, 1>;

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_TICKET_H_
