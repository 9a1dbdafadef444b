// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/offloader_user.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "tests/stress/pattern.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;

// Whether an abandoned offload may still read memory that is being overwritten. Its result is
// unused, so only a sanitizer would see the race.
#if defined(__SANITIZE_THREAD__)
constexpr bool kMindsLateReads = true;
#else
constexpr bool kMindsLateReads = false;
#endif

bool IsComing(BufferState state) {
  return state == BufferState::kOnDevice || state == BufferState::kComingBack;
}

// Checks that each compressed copy ends at most once.
CopyWatch NewWatch() {
  const auto ends = std::make_shared<std::atomic<int>>(0);
  return {.ended = [ends] { stress::Check(++*ends == 1, "a copy ended twice"); }};
}

}  // namespace

OffloaderUser::OffloaderUser(Worker& worker, OffloaderRig& rig, BufferNames& names)
    : worker_(worker), rig_(rig), offloader_(rig.offloader()), names_(names) {
  for (Stream& stream : streams_) stream = *Again([&] { return rig.device().CreateStream(); });
  event_ = *Again([&] { return rig.device().CreateEvent(); });
}

void OffloaderUser::Step() {
  rig_.faults().MaybeOrder(dice());
  const std::size_t choice = dice().Below(100);
  if (owned_.size() < kMostBuffers && choice < 20) return Add();
  if (choice < 26) return Meddle();
  if (choice < 28) return Synchronize();
  if (choice < 32) {
    worker_.Begins("inspect memory of the host");
    return rig_.Inspect(dice());
  }
  if (owned_.empty()) return;
  const std::size_t at = dice().Below(owned_.size());
  Owned& owned = owned_[at];
  if (choice < 55) return Send(owned);
  if (choice < 68) return Fetch(owned);
  if (choice < 80) return Check(owned);
  if (choice < 87) return Write(owned);
  if (choice < 92) return Await(owned);
  Free(at);
}

// FailedPrecondition: the buffer is elsewhere. ResourceExhausted: no room, or no room for a
// compressed copy.
bool OffloaderUser::Ended(const absl::Status& status) {
  return worker_.Ended(status, {StatusCode::kFailedPrecondition, StatusCode::kResourceExhausted,
                                StatusCode::kDeadlineExceeded, rig_.faults().expected()});
}

BufferState OffloaderUser::StateOf(const Owned& owned) {
  const auto state = offloader_.State(owned.buffer);
  CheckOk(state.status(), "State");
  return *state;
}

absl::Time OffloaderUser::AnyDeadline() {
  return dice().Chance(0.5) ? absl::InfiniteFuture()
                            : absl::Now() + absl::Microseconds(dice().Between(0, 2000));
}

void OffloaderUser::Order(Stream stream, Stream before) {
  if (stream == before) return;
  CheckOk(Again([&] { return rig_.device().RecordEvent(event_, before); }), "RecordEvent");
  CheckOk(Again([&] { return rig_.device().WaitEvent(stream, event_); }), "WaitEvent");
}

void OffloaderUser::Queue(Stream stream, std::function<void()> work) {
  CheckOk(Again([&] { return rig_.device().CallHost(stream, work); }), "CallHost");
}

// Queues work late after Use. The prefetch may have failed by then, but the memory has to stay
// valid.
void OffloaderUser::Dawdle() {
  if (dice().Chance(0.5)) return;
  std::this_thread::sleep_for(std::chrono::microseconds(dice().Between(1, 1000)));
}

void OffloaderUser::WaitFor(Stream stream) {
  CheckOk(Again([&] { return rig_.device().SynchronizeStream(stream); }), "SynchronizeStream");
}

bool OffloaderUser::IsThereAfter(const Owned& owned, Stream stream) {
  WaitFor(stream);
  for (;;) {
    const BufferState state = StateOf(owned);
    if (state != BufferState::kComingBack) return state == BufferState::kOnDevice;
    std::this_thread::yield();
  }
}

void OffloaderUser::Add() {
  const std::int64_t bytes = dice().Bytes(rig_.pool().budget() / 4);
  const absl::Time deadline = AnyDeadline();
  worker_.Begins("Offloader::Allocate");
  const Stream stream = AnyStream();
  const auto buffer = offloader_.Allocate(static_cast<std::size_t>(bytes), stream,
                                          dice().Chance(0.5) ? Hint::kResident : Hint::kOffloadable,
                                          "buffer", deadline);
  if (!Ended(buffer.status())) return MakeRoom();
  owned_.push_back({.buffer = *buffer, .bytes = bytes, .seed = 0, .stream = stream});
  names_[dice().Below(names_.size())] = buffer->id;
  Owned& owned = owned_.back();
  const auto address = Again([&] { return offloader_.Use(owned.buffer, stream); });
  CheckOk(address.status(), "Use of a new buffer");
  owned.seed = dice().Seed();
  Queue(stream, [to = *address, bytes, seed = owned.seed] { FillPattern(to, bytes, seed); });
}

// Chooses as an offload policy would.
void OffloaderUser::MakeRoom() {
  for (std::size_t at = owned_.size(); at-- > 0;) {
    if (dice().Chance(0.3)) {
      Free(at);
    } else if (dice().Chance(0.5)) {
      Send(owned_[at]);
    }
  }
}

void OffloaderUser::Send(Owned& owned) {
  CheckOk(Again([&] { return rig_.device().RecordEvent(event_, owned.stream); }), "RecordEvent");
  worker_.Begins("Offload");
  owned.was_sent = true;
  Ended(offloader_.Offload(owned.buffer, event_, rig_.AnyWord(dice()),
                           dice().Chance(0.3) ? NewWatch() : CopyWatch()));
}

void OffloaderUser::Fetch(Owned& owned) {
  if (absl::IsResourceExhausted(Prefetch(owned))) MakeRoom();
}

absl::Status OffloaderUser::Prefetch(Owned& owned) {
  const absl::Time deadline = AnyDeadline();
  worker_.Begins("Prefetch");
  absl::Status status = offloader_.Prefetch(
      owned.buffer, owned.stream, dice().Chance(0.5) ? Hint::kResident : Hint::kOffloadable,
      deadline, dice().Chance(0.3) ? NewWatch() : CopyWatch());
  Ended(status);
  return status;
}

// Use during a prefetch is the risky case.
bool OffloaderUser::MayUse(Owned& owned) {
  const BufferState state = StateOf(owned);
  if (IsComing(state)) return true;
  return dice().Chance(0.2) || Prefetch(owned).ok();
}

void OffloaderUser::Await(Owned& owned) {
  worker_.Begins("Await");
  Ended(offloader_.Await(owned.buffer));
}

void OffloaderUser::Synchronize() {
  worker_.Begins("Offloader::Synchronize");
  std::unique_lock lock(rig_.uses(), std::defer_lock);
  if (rig_.faults().are_wanted()) lock.lock();
  Ended(offloader_.Synchronize());
}

void OffloaderUser::Write(Owned& owned) {
  if (!MayUse(owned)) return;
  if (kMindsLateReads && owned.was_sent) {
    if (!IsComing(StateOf(owned))) return;
    owned.was_sent = false;
    Synchronize();
  }
  const bool is_sure = !rig_.faults().are_wanted() || StateOf(owned) == BufferState::kOnDevice;
  const Stream stream = AnyStream();
  for (const Stream other : streams_) Order(stream, other);
  const std::uint64_t seed = dice().Seed();
  {
    worker_.Begins("Use, to write");
    const std::shared_lock lock(rig_.uses());
    const auto address = offloader_.Use(owned.buffer, stream);
    if (!Ended(address.status())) return;
    if (!is_sure) Dawdle();
    Queue(stream, [to = *address, bytes = owned.bytes, seed] { FillPattern(to, bytes, seed); });
  }
  if (!is_sure && !IsThereAfter(owned, stream)) return;
  owned.stream = stream;
  owned.seed = seed;
}

void OffloaderUser::Check(Owned& owned) {
  if (!MayUse(owned)) return;
  const bool is_sure = !rig_.faults().are_wanted() || StateOf(owned) == BufferState::kOnDevice;
  const Stream stream = AnyStream();
  Order(stream, owned.stream);
  const auto is_right = std::make_shared<std::atomic<bool>>(true);
  {
    worker_.Begins("Use, to check");
    const std::shared_lock lock(rig_.uses());
    const auto address = offloader_.Use(owned.buffer, stream);
    if (!Ended(address.status())) return;
    if (!is_sure) Dawdle();
    ++worker_.counts().checks;
    Queue(stream, [from = *address, bytes = owned.bytes, seed = owned.seed, is_sure, is_right] {
      *is_right = HoldsPattern(from, bytes, seed);
      stress::Check(*is_right || !is_sure, "a buffer of ", bytes,
                    " bytes does not hold what was written last");
    });
  }
  if (is_sure) return;
  const bool is_there = IsThereAfter(owned, stream);
  stress::Check(*is_right || !is_there, "a buffer of ", owned.bytes,
                " bytes that came back does not hold what was written last");
}

void OffloaderUser::Free(std::size_t at) {
  if (dice().Chance(0.5)) Check(owned_[at]);
  worker_.Begins("Offloader::Free");
  const BufferId buffer = owned_[at].buffer;
  CheckOk(offloader_.Free(buffer), "Free");
  owned_[at] = owned_.back();
  owned_.pop_back();
  stress::Check(absl::IsNotFound(offloader_.State(buffer).status()),
                "a buffer that is gone is there");
}

// Uses buffers of other threads.
void OffloaderUser::Meddle() {
  worker_.Begins("meddle with buffers of others");
  const BufferId buffer = {dice().Pick(names_).load()};
  switch (dice().Below(3)) {
    case 0:
      return offloader_.State(buffer).status().IgnoreError();
    case 1:
      return offloader_.Await(buffer).IgnoreError();
    default:
      // A failed buffer that came back meanwhile does not hold the bytes that its thread wrote.
      if (rig_.faults().are_wanted()) return;
      offloader_.Prefetch(buffer, AnyStream(), Hint::kResident, AnyDeadline()).IgnoreError();
  }
}

void OffloaderUser::End() {
  while (!owned_.empty()) {
    for (std::size_t at = owned_.size(); at-- > 0;) {
      Owned& owned = owned_[at];
      if (StateOf(owned) != BufferState::kOnDevice) {
        offloader_
            .Prefetch(owned.buffer, owned.stream, Hint::kResident,
                      absl::Now() + absl::Milliseconds(5))
            .IgnoreError();
      }
      if (StateOf(owned) != BufferState::kOnDevice) continue;
      Check(owned);
      Free(at);
    }
    {
      const std::unique_lock lock(rig_.uses());
      offloader_.Synchronize().IgnoreError();
    }
    rig_.pool().GiveToDevice();
  }
  Leave();
}

void OffloaderUser::Leave() {
  for (const Stream stream : streams_) WaitFor(stream);
  CheckOk(Again([&] { return rig_.device().DestroyEvent(event_); }), "DestroyEvent");
}

}  // namespace tidepool::stress
