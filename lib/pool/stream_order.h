// What the pool knows of streams: how far each is, and who waits for whom.
//
// Each stream has a clock, whose position counts the frees on it. One event a clock is
// recorded, when memory really crosses over, and stands for every free so far; a stream that waits
// for it knows from then on what the awaited one knew. So many crossings need few events: a vector
// positions (Fidge 1988, Mattern 1989) whose messages are the waits.
#ifndef TIDEPOOL_LIB_POOL_STREAM_ORDER_H_
#define TIDEPOOL_LIB_POOL_STREAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/pool/ticket.h"
#include "tidepool/device.h"

namespace tidepool::pool {

using Positions = std::vector<std::uint64_t>;  // a position for each clock; 0 for those it lacks

// When a stream was destroyed and all its work is over, its clock goes on with another stream:
// the tickets of the old one are then known to be over.
struct StreamClock {
  Stream stream;
  std::uint32_t index = 0;
  std::uint64_t position = 0;
  Positions awaited;  // what work queued from here on comes after

  Event event;                  // none before the first record
  std::uint64_t recorded = 0;   // the position that the event stands for
  Positions recorded_awaited;   // and what the stream had awaited there
  std::uint64_t completed = 0;  // the position up to which the work is known to be over
  bool destroyed = false;
};

// Work of a clock up to a position, for a thread of the host to wait for.
struct HostWait {
  std::uint32_t clock = 0;
  std::uint64_t position = 0;
  Event event;
};

// Not thread-safe, but for Wait.
class StreamOrder {
 public:
  explicit StreamOrder(Device& device) : device_(device) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // The clock of a stream that takes work; NotFound when the device knows no such one.
  absl::StatusOr<StreamClock*> Find(Stream stream) {
    if (last_ != nullptr && last_->stream == stream && device_.stream_epoch() == epoch_) [[likely]]
      return last_;
    return FindAnew(stream);
  }
  // The same for a stream that may have been destroyed; null when all its work is over.
  StreamClock* Known(Stream stream) const;

  // Stands for the work on the stream so far.
  static Ticket NextTicket(StreamClock& clock) { return {clock.index, ++clock.position}; }
  // Stand for the work so far on all streams but one.
  Tickets TicketsOfAllBut(Stream stream) const;
  // The last position of the ticket's clock that an event stood for.
  std::uint64_t Recorded(const Ticket& ticket) const { return At(ticket).recorded; }
  const StreamClock& ClockOf(const Ticket& ticket) const { return At(ticket); }

  // Whether the ticket's work is not known to be over.
  bool MayRun(const Ticket& ticket) const { return At(ticket).completed < ticket.position; }
  // Whether work of `clock` must be made to wait for the ticket's work.
  bool MustWait(const StreamClock& clock, const Ticket& ticket) const {
    return ticket.clock != clock.index && MayRun(ticket) &&
           (ticket.clock >= clock.awaited.size() || clock.awaited[ticket.clock] < ticket.position);
  }
  // Makes it wait, on the device, unless the work turns out to be over: then returns false.
  absl::StatusOr<bool> Await(StreamClock& clock, const Ticket& ticket);
  // Whether the ticket's work is over, as the device knows.
  absl::StatusOr<bool> HasFinished(const Ticket& ticket);
  // A wait on the host for the work of all tickets, in three steps: whoever holds the order's lock
  // releases it for the second one. The first says what to wait for.
  absl::StatusOr<std::vector<HostWait>> PrepareWait(const Tickets& tickets);
  // Thread-safe, and needs no lock. After an error nothing is known.
  absl::Status Wait(const std::vector<HostWait>& waits) const;
  // Notes that the work is over.
  void NoteFinished(const std::vector<HostWait>& waits);
  // Waits on the host for all work of all streams so far, however the device allows it. Returns the
  // first error that it found no way around.
  absl::Status SynchronizeAll();

  std::int64_t event_records() const { return event_records_; }

  // Streams that there ever were.
  std::uint64_t begun() const { return begun_; }
  // Streams whose work is not known to be over for ever.
  std::size_t size() const { return by_stream_.size(); }

 private:
  StreamClock& At(const Ticket& ticket) const { return *clocks_[ticket.clock]; }
  absl::StatusOr<StreamClock*> FindAnew(Stream stream);
  StreamClock* Begin(Stream stream);
  void Sweep();
  bool HasFinished(StreamClock& destroyed);
  absl::Status Synchronize(const Ticket& ticket);
  absl::Status Record(StreamClock& clock);

  Device& device_;
  std::uint64_t epoch_ = 0;
  StreamClock* last_ = nullptr;
  std::vector<std::unique_ptr<StreamClock>> clocks_;
  std::vector<StreamClock*> idle_;  // those whose stream is over
  absl::flat_hash_map<std::uint64_t, StreamClock*> by_stream_;
  std::int64_t event_records_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_STREAM_ORDER_H_
