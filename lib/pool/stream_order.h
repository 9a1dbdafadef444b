// What the pool knows of streams: how far each is, and who waits for whom.
//
// A stream's position counts the frees on it. One event a stream is recorded, when memory really
// crosses over, and stands for every free so far; a stream that waits for it knows from then on
// what the awaited one knew. So many crossings need few events: a vector clock (Fidge 1988, Mattern
// 1989) whose messages are the waits.
#ifndef TIDEPOOL_LIB_POOL_STREAM_ORDER_H_
#define TIDEPOOL_LIB_POOL_STREAM_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/pool/ticket.h"
#include "tidepool/device.h"

namespace tidepool::pool {

using Clock = absl::flat_hash_map<std::uint64_t, std::uint64_t>;  // stream -> position

struct StreamState {
  Stream stream;
  std::uint64_t position = 0;
  Clock awaited;  // what work queued from here on comes after

  Event event;                  // none before the first record
  std::uint64_t recorded = 0;   // the position that the event stands for
  Clock recorded_awaited;       // and what the stream had awaited there
  std::uint64_t completed = 0;  // the position up to which the work is known to be over
  bool destroyed = false;
};

// Not thread-safe.
class StreamOrder {
 public:
  explicit StreamOrder(Device& device) : device_(device) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // A stream that takes work; NotFound when the device knows no such one. The state stays where it
  // is until the stream is destroyed and its work is over.
  absl::StatusOr<StreamState*> Find(Stream stream) {
    if (last_ != nullptr && last_->stream == stream && device_.stream_epoch() == epoch_) [[likely]]
      return last_;
    return FindAnew(stream);
  }

  // What is known of a stream, destroyed or not; null when all its work is over.
  StreamState* Known(Stream stream) const { return StateOf(stream.id); }

  // Stands for the work on the stream so far.
  static Ticket NextTicket(StreamState& state) { return {state.stream.id, ++state.position}; }
  // Stand for the work so far on all streams but one.
  Tickets TicketsOfAllBut(Stream stream) const;
  // The last position of the ticket's stream that an event stood for.
  std::uint64_t Recorded(const Ticket& ticket) const;

  // Whether the ticket's work is not known to be over.
  bool MayRun(const Ticket& ticket) const;
  // Whether work of `state` must be made to wait for the ticket's work.
  bool MustWait(const StreamState& state, const Ticket& ticket) const;
  // Makes it wait, on the device, unless the work turns out to be over: then returns false.
  absl::StatusOr<bool> Await(StreamState& state, const Ticket& ticket);
  // Waits on the host.
  absl::Status Synchronize(const Ticket& ticket);
  // Waits on the host for all work of all streams so far. Returns the first error.
  absl::Status SynchronizeAll();

  std::int64_t event_records() const { return event_records_; }

  // Streams that are not forgotten.
  std::size_t size() const { return states_.size(); }

 private:
  absl::StatusOr<StreamState*> FindAnew(Stream stream);
  void Sweep();
  bool IsOver(StreamState& destroyed);
  absl::Status Record(StreamState& state);
  StreamState* StateOf(std::uint64_t stream) const;

  Device& device_;
  std::uint64_t epoch_ = 0;
  StreamState* last_ = nullptr;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<StreamState>> states_;
  std::int64_t event_records_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_STREAM_ORDER_H_
