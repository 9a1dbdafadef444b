// What the pool knows of streams: how far each is, and who waits for whom.
//
// Each stream has a timeline, whose position counts the frees on it. One event a timeline is
// recorded, when memory really crosses over, and stands for every free so far; a stream that waits
// for it knows from then on what the awaited one knew. So many crossings need few events: a vector
// clock (Fidge 1988, Mattern 1989) whose messages are the waits.
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

using Clock = std::vector<std::uint64_t>;  // a position for each timeline; 0 for those it lacks

// When a stream was destroyed and all its work is over, its timeline goes on with another stream:
// the tickets of the old one are then known to be over.
struct Timeline {
  Stream stream;
  std::uint32_t index = 0;
  std::uint64_t position = 0;
  Clock awaited;  // what work queued from here on comes after

  Event event;                  // none before the first record
  std::uint64_t recorded = 0;   // the position that the event stands for
  Clock recorded_awaited;       // and what the stream had awaited there
  std::uint64_t completed = 0;  // the position up to which the work is known to be over
  bool destroyed = false;
};

// Work of a timeline up to a position, for a thread of the host to wait for.
struct HostWait {
  std::uint32_t timeline = 0;
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

  // The timeline of a stream that takes work; NotFound when the device knows no such one.
  absl::StatusOr<Timeline*> Find(Stream stream) {
    if (last_ != nullptr && last_->stream == stream && device_.stream_epoch() == epoch_) [[likely]]
      return last_;
    return FindAnew(stream);
  }
  // The same for a stream that may have been destroyed; null when all its work is over.
  Timeline* Known(Stream stream) const;

  // Stands for the work on the stream so far.
  static Ticket NextTicket(Timeline& timeline) { return {timeline.index, ++timeline.position}; }
  // Stand for the work so far on all streams but one.
  Tickets TicketsOfAllBut(Stream stream) const;
  // The last position of the ticket's timeline that an event stood for.
  std::uint64_t Recorded(const Ticket& ticket) const { return At(ticket).recorded; }
  Stream StreamOf(const Ticket& ticket) const { return At(ticket).stream; }

  // Whether the ticket's work is not known to be over.
  bool MayRun(const Ticket& ticket) const { return At(ticket).completed < ticket.position; }
  // Whether work of `timeline` must be made to wait for the ticket's work.
  bool MustWait(const Timeline& timeline, const Ticket& ticket) const {
    return ticket.timeline != timeline.index && MayRun(ticket) &&
           (ticket.timeline >= timeline.awaited.size() ||
            timeline.awaited[ticket.timeline] < ticket.position);
  }
  // Makes it wait, on the device, unless the work turns out to be over: then returns false.
  absl::StatusOr<bool> Await(Timeline& timeline, const Ticket& ticket);
  // Whether the ticket's work is over, as the device knows.
  absl::StatusOr<bool> IsOver(const Ticket& ticket);
  // A wait on the host for the work of all tickets, in three steps: whoever holds the order's lock
  // releases it for the second one. The first says what to wait for.
  absl::StatusOr<std::vector<HostWait>> PrepareWait(const Tickets& tickets);
  // Thread-safe, and needs no lock. After an error nothing is known.
  absl::Status Wait(const std::vector<HostWait>& waits) const;
  // Notes that the work is over.
  void NoteOver(const std::vector<HostWait>& waits);
  // Waits on the host for all work of all streams so far, however the device allows it. Returns the
  // first error that it found no way around.
  absl::Status SynchronizeAll();

  std::int64_t event_records() const { return event_records_; }

  // Streams that there ever were.
  std::uint64_t begun() const { return begun_; }
  // Streams whose work is not known to be over for ever.
  std::size_t size() const { return by_stream_.size(); }

 private:
  Timeline& At(const Ticket& ticket) const { return *timelines_[ticket.timeline]; }
  absl::StatusOr<Timeline*> FindAnew(Stream stream);
  Timeline* Begin(Stream stream);
  void Sweep();
  bool IsOver(Timeline& destroyed);
  absl::Status Synchronize(const Ticket& ticket);
  absl::Status Record(Timeline& timeline);

  Device& device_;
  std::uint64_t epoch_ = 0;
  Timeline* last_ = nullptr;
  std::vector<std::unique_ptr<Timeline>> timelines_;
  std::vector<Timeline*> idle_;  // those whose stream is over
  absl::flat_hash_map<std::uint64_t, Timeline*> by_stream_;
  std::int64_t event_records_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_STREAM_ORDER_H_
