// SPDX-License-Identifier: Apache-2.0
// StreamOrder: how far each stream of a pool is, and which work each stream waits for.
//
// Each stream has a clock; its position counts the frees on the stream. When memory crosses to
// another stream, one event of the clock is recorded; it stands for every free so far. A stream
// that waits for the event has then waited for everything that the awaited stream had waited for.
// Thus many crossings need few events. The positions that a stream has awaited are a vector clock
// (Fidge 1988, Mattern 1989), and waits are its messages.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_STREAM_ORDER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_STREAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/device/owned.h"
#include "lib/memory/pool/ticket.h"
#include "tidepool/device.h"

namespace tidepool::pool {

using Positions = std::vector<std::uint64_t>;  // a position for each clock; 0 for those it lacks

// The progress of a stream. The clock of a destroyed, idle stream is reused for a new stream: the
// work of its old tickets has finished.
struct StreamClock {
  Stream stream;
  std::uint32_t index = 0;
  std::uint64_t position = 0;
  Positions awaited;  // work queued from here on comes after these

  device::OwnedEvent event;     // none before the first record
  std::uint64_t recorded = 0;   // the position that the event stands for
  Positions recorded_awaited;   // the positions that the stream had awaited there
  std::uint64_t completed = 0;  // the work up to this position is known to have finished
  bool destroyed = false;
  bool may_end = false;  // its owner may destroy the stream without telling the device
};

// Work of a clock up to a position, which a thread of the host waits for.
struct HostWait {
  std::uint32_t clock = 0;
  std::uint64_t position = 0;
  Event event;
};

// Not thread-safe, but for Wait.
class StreamOrder {
 public:
  StreamOrder(Device& device, bool late_frees) : device_(device), late_frees_(late_frees) {}
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Returns the clock of a stream; NotFound when the device does not know the stream.
  absl::StatusOr<StreamClock*> Find(Stream stream) {
    if (last_ != nullptr && last_->stream == stream && device_.stream_epoch() == epoch_) [[likely]]
      return last_;
    return FindSlowly(stream);
  }
  // Returns the clock of a stream that may have been destroyed; null when all its work has
  // finished.
  StreamClock* Known(Stream stream) const;

  // Returns a ticket for the work on the stream so far.
  static Ticket NextTicket(StreamClock& clock) { return {clock.index, ++clock.position}; }
  // Returns the same in a call that names the stream. A stream that may end is recorded now: a
  // later record must not name it, and would stand for the work of all streams.
  Ticket TicketOfCaller(StreamClock& clock) {
    const Ticket ticket = NextTicket(clock);
    if (clock.may_end && !late_frees_) [[unlikely]]
      RecordAs(clock, [&] {
        return device_.RecordEvent(clock.event.get(), clock.stream);
      }).IgnoreError();
    return ticket;
  }
  // Returns tickets for the work so far on all streams but one.
  Tickets TakeTicketsOfAllBut(Stream stream) const;
  // Returns the last position of the ticket's clock that an event stood for.
  std::uint64_t Recorded(const Ticket& ticket) const { return At(ticket).recorded; }
  const StreamClock& ClockOf(const Ticket& ticket) const { return At(ticket); }

  // Whether the ticket's work is not known to have finished.
  bool MayRun(const Ticket& ticket) const { return At(ticket).completed < ticket.position; }
  // Whether work of `clock` must be made to wait for the ticket's work.
  bool MustWait(const StreamClock& clock, const Ticket& ticket) const {
    return ticket.clock != clock.index && MayRun(ticket) &&
           (ticket.clock >= clock.awaited.size() || clock.awaited[ticket.clock] < ticket.position);
  }
  // Makes the stream of `clock` wait, on the device. Returns false, and makes no wait, when the
  // work has finished.
  absl::StatusOr<bool> MakeStreamWait(StreamClock& clock, const Ticket& ticket);
  // Whether the ticket's work has finished, as far as the device knows.
  absl::StatusOr<bool> HasFinished(const Ticket& ticket);
  // A wait on the host for the work of all tickets takes three steps, and the owner releases its
  // lock for the second. The first step returns the events to wait for.
  absl::StatusOr<std::vector<HostWait>> PrepareWait(const Tickets& tickets);
  // The second step waits for them. Thread-safe, and needs no lock. After an error nothing is
  // known.
  absl::Status Wait(const std::vector<HostWait>& waits) const;
  // The third step notes that the work has finished.
  void NoteFinished(const std::vector<HostWait>& waits);
  // Records every stream with work that no event stands for. Returns the first error.
  absl::Status RecordWork();
  // Waits on the host for all work of all streams so far, however the device allows it. Returns the
  // first error that it found no way around.
  absl::Status SynchronizeAll();

  std::int64_t event_records() const { return event_records_; }

  // Returns how many streams the pool has ever served.
  std::uint64_t begun() const { return begun_; }
  // Returns how many streams can still have work.
  std::size_t size() const { return by_stream_.size(); }

 private:
  StreamClock& At(const Ticket& ticket) const { return *clocks_[ticket.clock]; }
  absl::StatusOr<StreamClock*> FindSlowly(Stream stream);
  StreamClock* Begin(Stream stream);
  void Sweep();
  bool HasFinished(StreamClock& destroyed);
  absl::Status Synchronize(const Ticket& ticket);
  // Records the work of a stream so far, in a call that need not name it.
  absl::Status Record(StreamClock& clock);
  template <typename RecordOnDevice>
  absl::Status RecordAs(StreamClock& clock, RecordOnDevice record);

  Device& device_;
  const bool late_frees_;
  std::uint64_t epoch_ = 0;
  StreamClock* last_ = nullptr;
  std::vector<std::unique_ptr<StreamClock>> clocks_;
  std::vector<StreamClock*> idle_;  // clocks without a stream
  absl::flat_hash_map<std::uint64_t, StreamClock*> by_stream_;
  std::int64_t event_records_ = 0;
  std::uint64_t begun_ = 0;
};

template <typename RecordOnDevice>
absl::Status StreamOrder::RecordAs(StreamClock& clock, RecordOnDevice record) {
  if (absl::Status status = clock.event.Ensure(device_); !status.ok()) return status;
  if (absl::Status status = record(); !status.ok()) return status;
  ++event_records_;
  clock.recorded = clock.position;
  clock.recorded_awaited = clock.awaited;
  return absl::OkStatus();
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_STREAM_ORDER_H_
