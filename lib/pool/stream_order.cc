// Tickets become events here, as late and as seldom as possible.
#include "lib/pool/stream_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidepool::pool {
namespace {

void Advance(Clock& clock, std::size_t timeline, std::uint64_t position) {
  if (timeline >= clock.size()) clock.resize(timeline + 1);
  clock[timeline] = std::max(clock[timeline], position);
}

}  // namespace

StreamOrder::~StreamOrder() {
  for (const auto& timeline : timelines_) {
    if (timeline->event.id != 0) device_.DestroyEvent(timeline->event).IgnoreError();
  }
}

absl::StatusOr<Timeline*> StreamOrder::FindAnew(Stream stream) {
  const std::uint64_t epoch = device_.stream_epoch();
  if (epoch != epoch_) {
    Sweep();
    epoch_ = epoch;
  }
  Timeline* timeline = Known(stream);
  if (timeline == nullptr ? !device_.HasStream(stream) : timeline->destroyed) {
    return absl::NotFoundError(absl::StrCat("stream ", stream.id, ", expected one of ",
                                            device_.name(), " that was not destroyed"));
  }
  last_ = timeline == nullptr ? Begin(stream) : timeline;
  return last_;
}

Timeline* StreamOrder::Known(Stream stream) const {
  const auto found = by_stream_.find(stream.id);
  return found == by_stream_.end() ? nullptr : found->second;
}

Timeline* StreamOrder::Begin(Stream stream) {
  if (idle_.empty()) {
    timelines_.push_back(std::make_unique<Timeline>());
    timelines_.back()->index = static_cast<std::uint32_t>(timelines_.size() - 1);
    idle_.push_back(timelines_.back().get());
  }
  ++begun_;
  Timeline* timeline = idle_.back();
  idle_.pop_back();
  timeline->stream = stream;
  timeline->awaited.clear();
  timeline->recorded_awaited.clear();
  timeline->destroyed = false;
  by_stream_[stream.id] = timeline;
  return timeline;
}

// Lets go of streams that were destroyed and have no work left.
void StreamOrder::Sweep() {
  last_ = nullptr;
  std::vector<Timeline*> over;
  for (const auto& [id, timeline] : by_stream_) {
    if (!timeline->destroyed && !device_.HasStream(timeline->stream)) {
      timeline->destroyed = true;
      NextTicket(*timeline);  // stands for all of its work, tickets to come included
    }
    if (timeline->destroyed && IsOver(*timeline)) over.push_back(timeline);
  }
  for (Timeline* timeline : over) {
    by_stream_.erase(timeline->stream.id);
    idle_.push_back(timeline);
  }
}

// An error of the device leaves the question for later: nothing depends on the answer.
bool StreamOrder::IsOver(Timeline& destroyed) {
  if (destroyed.recorded < destroyed.position && !Record(destroyed).ok()) return false;
  const absl::StatusOr<bool> done = device_.QueryEvent(destroyed.event);
  if (!done.ok() || !*done) return false;
  destroyed.completed = destroyed.recorded;
  return true;
}

Tickets StreamOrder::TicketsOfAllBut(Stream stream) const {
  Tickets tickets;
  for (const auto& [id, timeline] : by_stream_) {
    if (id != stream.id) tickets.push_back(NextTicket(*timeline));
  }
  return tickets;
}

absl::StatusOr<bool> StreamOrder::Await(Timeline& timeline, const Ticket& ticket) {
  Timeline& awaited = At(ticket);
  if (awaited.recorded < ticket.position) {
    if (absl::Status status = Record(awaited); !status.ok()) return status;
  } else {
    const absl::StatusOr<bool> done = device_.QueryEvent(awaited.event);
    if (!done.ok()) return done.status();
    if (*done) {
      awaited.completed = awaited.recorded;
      return false;
    }
  }
  if (absl::Status status = device_.WaitEvent(timeline.stream, awaited.event); !status.ok()) {
    return status;
  }
  Advance(timeline.awaited, ticket.timeline, awaited.recorded);
  for (std::size_t i = 0; i < awaited.recorded_awaited.size(); ++i) {
    Advance(timeline.awaited, i, awaited.recorded_awaited[i]);
  }
  return true;
}

absl::StatusOr<bool> StreamOrder::IsOver(const Ticket& ticket) {
  if (!MayRun(ticket)) return true;
  Timeline& timeline = At(ticket);
  if (timeline.recorded < ticket.position) {
    if (absl::Status status = Record(timeline); !status.ok()) return status;
  }
  absl::StatusOr<bool> done = device_.QueryEvent(timeline.event);
  if (done.ok() && *done) timeline.completed = timeline.recorded;
  return done;
}

absl::StatusOr<std::vector<HostWait>> StreamOrder::PrepareWait(const Tickets& tickets) {
  std::vector<HostWait> waits;
  for (const Ticket& ticket : tickets) {
    if (!MayRun(ticket)) continue;
    Timeline& timeline = At(ticket);
    if (timeline.recorded < ticket.position) {
      if (absl::Status status = Record(timeline); !status.ok()) return status;
    }
    waits.push_back({ticket.timeline, timeline.recorded, timeline.event});
  }
  return waits;
}

// Another thread may record an event once more meanwhile: then the wait is for more.
absl::Status StreamOrder::Wait(const std::vector<HostWait>& waits) const {
  for (const HostWait& wait : waits) {
    if (absl::Status status = device_.SynchronizeEvent(wait.event); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void StreamOrder::NoteOver(const std::vector<HostWait>& waits) {
  for (const HostWait& wait : waits) {
    std::uint64_t& completed = timelines_[wait.timeline]->completed;
    completed = std::max(completed, wait.position);
  }
}

absl::Status StreamOrder::Synchronize(const Ticket& ticket) {
  Timeline& timeline = At(ticket);
  if (!MayRun(ticket)) return absl::OkStatus();
  if (timeline.recorded < ticket.position) {
    if (absl::Status status = Record(timeline); !status.ok()) return status;
  }
  absl::Status status = device_.SynchronizeEvent(timeline.event);
  if (status.ok()) timeline.completed = timeline.recorded;
  return status;
}

absl::Status StreamOrder::SynchronizeAll() {
  absl::Status first;
  for (const auto& [id, timeline] : by_stream_) {
    const Ticket ticket = NextTicket(*timeline);
    absl::Status status = Synchronize(ticket);
    if (!status.ok()) status = Synchronize(ticket);
    if (!status.ok() && device_.HasStream(timeline->stream)) {
      status = device_.SynchronizeStream(timeline->stream);
    }
    first.Update(status);
  }
  return first;
}

absl::Status StreamOrder::Record(Timeline& timeline) {
  if (timeline.event.id == 0) {
    const absl::StatusOr<Event> event = device_.CreateEvent();
    if (!event.ok()) return event.status();
    timeline.event = *event;
  }
  absl::Status status = device_.RecordEvent(timeline.event, timeline.stream);
  if (!status.ok()) return status;
  ++event_records_;
  timeline.recorded = timeline.position;
  timeline.recorded_awaited = timeline.awaited;
  return status;
}

}  // namespace tidepool::pool
