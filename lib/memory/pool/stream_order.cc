// SPDX-License-Identifier: Apache-2.0
// Tickets become events here, as late and as seldom as possible.
#include "lib/memory/pool/stream_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidepool::pool {
namespace {

void Advance(Positions& positions, std::size_t clock, std::uint64_t position) {
  if (clock >= positions.size()) positions.resize(clock + 1);
  positions[clock] = std::max(positions[clock], position);
}

}  // namespace

absl::StatusOr<StreamClock*> StreamOrder::FindSlowly(Stream stream) {
  const std::uint64_t epoch = device_.stream_epoch();
  if (epoch != epoch_) {
    Sweep();
    epoch_ = epoch;
  }
  StreamClock* clock = Known(stream);
  if (clock == nullptr ? !device_.HasStream(stream) : clock->destroyed) {
    return absl::NotFoundError(absl::StrCat("stream ", stream.id, ", expected one of ",
                                            device_.name(), " that was not destroyed"));
  }
  last_ = clock == nullptr ? Begin(stream) : clock;
  return last_;
}

StreamClock* StreamOrder::Known(Stream stream) const {
  const auto found = by_stream_.find(stream.id);
  return found == by_stream_.end() ? nullptr : found->second;
}

StreamClock* StreamOrder::Begin(Stream stream) {
  if (idle_.empty()) {
    clocks_.push_back(std::make_unique<StreamClock>());
    clocks_.back()->index = static_cast<std::uint32_t>(clocks_.size() - 1);
    idle_.push_back(clocks_.back().get());
  }
  ++begun_;
  StreamClock* clock = idle_.back();
  idle_.pop_back();
  clock->stream = stream;
  clock->awaited.clear();
  clock->recorded_awaited.clear();
  clock->destroyed = false;
  clock->may_end = device_.MayEnd(stream);
  by_stream_[stream.id] = clock;
  return clock;
}

// Drops streams that were destroyed and have no work left.
void StreamOrder::Sweep() {
  last_ = nullptr;
  std::vector<StreamClock*> finished;
  for (const auto& [id, clock] : by_stream_) {
    if (!clock->destroyed && !device_.HasStream(clock->stream)) {
      clock->destroyed = true;
      NextTicket(*clock);  // stands for all of its work, tickets to come included
    }
    if (clock->destroyed && HasFinished(*clock)) finished.push_back(clock);
  }
  for (StreamClock* clock : finished) {
    by_stream_.erase(clock->stream.id);
    idle_.push_back(clock);
  }
}

// After an error of the device the next sweep asks again: nothing depends on the answer now.
bool StreamOrder::HasFinished(StreamClock& destroyed) {
  if (destroyed.recorded < destroyed.position && !Record(destroyed).ok()) return false;
  const absl::StatusOr<bool> done = device_.QueryEvent(destroyed.event.get());
  if (!done.ok() || !*done) return false;
  destroyed.completed = destroyed.recorded;
  return true;
}

Tickets StreamOrder::TakeTicketsOfAllBut(Stream stream) const {
  Tickets tickets;
  for (const auto& [id, clock] : by_stream_) {
    if (id != stream.id) tickets.push_back(NextTicket(*clock));
  }
  return tickets;
}

absl::StatusOr<bool> StreamOrder::MakeStreamWait(StreamClock& clock, const Ticket& ticket) {
  StreamClock& awaited = At(ticket);
  if (awaited.recorded < ticket.position) {
    if (absl::Status status = Record(awaited); !status.ok()) return status;
  } else {
    const absl::StatusOr<bool> done = device_.QueryEvent(awaited.event.get());
    if (!done.ok()) return done.status();
    if (*done) {
      awaited.completed = awaited.recorded;
      return false;
    }
  }
  if (absl::Status status = device_.WaitEvent(clock.stream, awaited.event.get()); !status.ok()) {
    return status;
  }
  Advance(clock.awaited, ticket.clock, awaited.recorded);
  for (std::size_t i = 0; i < awaited.recorded_awaited.size(); ++i) {
    Advance(clock.awaited, i, awaited.recorded_awaited[i]);
  }
  return true;
}

absl::StatusOr<bool> StreamOrder::HasFinished(const Ticket& ticket) {
  if (!MayRun(ticket)) return true;
  StreamClock& clock = At(ticket);
  if (clock.recorded < ticket.position) {
    if (absl::Status status = Record(clock); !status.ok()) return status;
  }
  absl::StatusOr<bool> done = device_.QueryEvent(clock.event.get());
  if (done.ok() && *done) clock.completed = clock.recorded;
  return done;
}

absl::StatusOr<std::vector<HostWait>> StreamOrder::PrepareWait(const Tickets& tickets) {
  std::vector<HostWait> waits;
  for (const Ticket& ticket : tickets) {
    if (!MayRun(ticket)) continue;
    StreamClock& clock = At(ticket);
    if (clock.recorded < ticket.position) {
      if (absl::Status status = Record(clock); !status.ok()) return status;
    }
    waits.push_back({ticket.clock, clock.recorded, clock.event.get()});
  }
  return waits;
}

// Another thread may record an event again meanwhile: then the wait is for more work.
absl::Status StreamOrder::Wait(const std::vector<HostWait>& waits) const {
  for (const HostWait& wait : waits) {
    if (absl::Status status = device_.SynchronizeEvent(wait.event); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void StreamOrder::NoteFinished(const std::vector<HostWait>& waits) {
  for (const HostWait& wait : waits) {
    std::uint64_t& completed = clocks_[wait.clock]->completed;
    completed = std::max(completed, wait.position);
  }
}

absl::Status StreamOrder::Synchronize(const Ticket& ticket) {
  StreamClock& clock = At(ticket);
  if (!MayRun(ticket)) return absl::OkStatus();
  if (clock.recorded < ticket.position) {
    if (absl::Status status = Record(clock); !status.ok()) return status;
  }
  absl::Status status = device_.SynchronizeEvent(clock.event.get());
  if (status.ok()) clock.completed = clock.recorded;
  return status;
}

absl::Status StreamOrder::RecordWork() {
  absl::Status first;
  for (const auto& [id, clock] : by_stream_) {
    if (clock->recorded < clock->position) first.Update(Record(*clock));
  }
  return first;
}

absl::Status StreamOrder::SynchronizeAll() {
  absl::Status first;
  for (const auto& [id, clock] : by_stream_) {
    const Ticket ticket = NextTicket(*clock);
    absl::Status status = Synchronize(ticket);
    if (!status.ok()) status = Synchronize(ticket);
    if (!status.ok() && !clock->may_end && device_.HasStream(clock->stream)) {
      status = device_.SynchronizeStream(clock->stream);
    }
    first.Update(status);
  }
  return first;
}

absl::Status StreamOrder::Record(StreamClock& clock) {
  return RecordAs(clock, [&] {
    return clock.may_end ? device_.RecordAll(clock.event.get())
                         : device_.RecordEvent(clock.event.get(), clock.stream);
  });
}

}  // namespace tidepool::pool
