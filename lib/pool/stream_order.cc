// Tickets become events here, as late and as seldom as possible.
#include "lib/pool/stream_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidepool::pool {
namespace {

std::uint64_t PositionIn(const Clock& clock, std::uint64_t stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

void Advance(Clock& clock, std::uint64_t stream, std::uint64_t position) {
  std::uint64_t& known = clock[stream];
  known = std::max(known, position);
}

}  // namespace

StreamOrder::~StreamOrder() {
  for (const auto& [id, state] : states_) {
    if (state->event.id != 0) device_.DestroyEvent(state->event).IgnoreError();
  }
}

absl::StatusOr<StreamState*> StreamOrder::FindAnew(Stream stream) {
  const std::uint64_t epoch = device_.stream_epoch();
  if (epoch != epoch_) {
    Sweep();
    epoch_ = epoch;
  }
  StreamState* state = StateOf(stream.id);
  if (state == nullptr ? !device_.HasStream(stream) : state->destroyed) {
    return absl::NotFoundError(absl::StrCat("stream ", stream.id, ", expected one of ",
                                            device_.name(), " that was not destroyed"));
  }
  if (state == nullptr) {
    std::unique_ptr<StreamState>& added = states_[stream.id];
    added = std::make_unique<StreamState>();
    added->stream = stream;
    state = added.get();
  }
  last_ = state;
  return state;
}

// Forgets streams that were destroyed and have no work left.
void StreamOrder::Sweep() {
  last_ = nullptr;
  std::vector<std::uint64_t> over;
  for (const auto& [id, state] : states_) {
    if (!state->destroyed && !device_.HasStream(state->stream)) {
      state->destroyed = true;
      NextTicket(*state);  // stands for all of its work, tickets to come included
    }
    if (state->destroyed && IsOver(*state)) over.push_back(id);
  }
  for (const std::uint64_t gone : over) {
    states_.erase(gone);
    for (const auto& [id, state] : states_) {
      state->awaited.erase(gone);
      state->recorded_awaited.erase(gone);
    }
  }
}

// An error of the device leaves the question for later: nothing depends on the answer.
bool StreamOrder::IsOver(StreamState& destroyed) {
  if (destroyed.recorded < destroyed.position && !Record(destroyed).ok()) return false;
  const absl::StatusOr<bool> done = device_.QueryEvent(destroyed.event);
  return done.ok() && *done && device_.DestroyEvent(destroyed.event).ok();
}

StreamState* StreamOrder::StateOf(std::uint64_t stream) const {
  const auto found = states_.find(stream);
  return found == states_.end() ? nullptr : found->second.get();
}

Tickets StreamOrder::TicketsOfAllBut(Stream stream) const {
  Tickets tickets;
  for (const auto& [id, state] : states_) {
    if (id != stream.id) tickets.push_back(NextTicket(*state));
  }
  return tickets;
}

std::uint64_t StreamOrder::Recorded(const Ticket& ticket) const {
  const StreamState* state = StateOf(ticket.stream);
  return state == nullptr ? UINT64_MAX : state->recorded;
}

bool StreamOrder::MayRun(const Ticket& ticket) const {
  const StreamState* state = StateOf(ticket.stream);
  return state != nullptr && state->completed < ticket.position;
}

bool StreamOrder::MustWait(const StreamState& state, const Ticket& ticket) const {
  return ticket.stream != state.stream.id && MayRun(ticket) &&
         PositionIn(state.awaited, ticket.stream) < ticket.position;
}

absl::StatusOr<bool> StreamOrder::Await(StreamState& state, const Ticket& ticket) {
  StreamState& awaited = *StateOf(ticket.stream);
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
  if (absl::Status status = device_.WaitEvent(state.stream, awaited.event); !status.ok()) {
    return status;
  }
  Advance(state.awaited, ticket.stream, awaited.recorded);
  for (const auto& [stream, position] : awaited.recorded_awaited) {
    Advance(state.awaited, stream, position);
  }
  return true;
}

absl::Status StreamOrder::Synchronize(const Ticket& ticket) {
  StreamState* state = StateOf(ticket.stream);
  if (state == nullptr || state->completed >= ticket.position) return absl::OkStatus();
  if (state->recorded < ticket.position) {
    if (absl::Status status = Record(*state); !status.ok()) return status;
  }
  absl::Status status = device_.SynchronizeEvent(state->event);
  if (status.ok()) state->completed = state->recorded;
  return status;
}

absl::Status StreamOrder::SynchronizeAll() {
  absl::Status first;
  for (const auto& [id, state] : states_) first.Update(Synchronize(NextTicket(*state)));
  return first;
}

absl::Status StreamOrder::Record(StreamState& state) {
  if (state.event.id == 0) {
    const absl::StatusOr<Event> event = device_.CreateEvent();
    if (!event.ok()) return event.status();
    state.event = *event;
  }
  absl::Status status = device_.RecordEvent(state.event, state.stream);
  if (!status.ok()) return status;
  ++event_records_;
  state.recorded = state.position;
  state.recorded_awaited = state.awaited;
  return status;
}

}  // namespace tidepool::pool
