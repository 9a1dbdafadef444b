// The ends of copies: who waits for them, and what they change.
#include <algorithm>
#include <utility>

#include "lib/offload/buffer_states.h"
#include "lib/offload/offloader_impl.h"

namespace tidepool::offload {
namespace {

// How often a thread with a deadline looks at a copy.
constexpr absl::Duration kLook = absl::Microseconds(100);

}  // namespace

void OffloaderImpl::Changed() const { ended_.NoteChange(); }

void OffloaderImpl::CollectEnded() const {
  for (EndedCopy& ended : ended_.TakeAll()) {
    BufferCopy& copy = *ended.copy;
    copy.is_over = true;
    copy.result = std::move(ended.result);
    if (ended.stored != nullptr) {
      copy.host = std::make_shared<HostMemory>(holdings_, std::move(ended.stored));
    }
  }
}

// Releases the mutex until there is a change after `seen`. False when there is none by the
// deadline.
bool OffloaderImpl::AwaitChange(Lock& lock, std::uint64_t seen, absl::Time deadline) const {
  const bool has_changed = ended_.Await(lock, seen, deadline);
  CollectEnded();
  return has_changed;
}

// After an error the copy is over all the same, or nobody will ever know. Only in the end all that
// is queued behind it is waited for too, which may wait for what comes of this copy.
absl::Status OffloaderImpl::WaitOnHost(const BufferCopy& copy, bool is_marked) const {
  constexpr int kTimes = 2;
  absl::Status first;
  const auto is_over = [&](const absl::Status& status) {
    first.Update(status);
    return status.ok();
  };
  for (int i = 0; i < kTimes && is_marked; ++i) {
    if (is_over(device_.SynchronizeEvent(copy.event.get()))) return first;
  }
  for (int i = 0; i < kTimes; ++i) {
    if (is_over(device_.SynchronizeStream(copy.is_out ? out_ : in_))) return first;
  }
  return first;
}

// The copy is settled then.
// NOLINTNEXTLINE(performance-unnecessary-value-param): others may drop it while this thread waits.
void OffloaderImpl::Finish(Lock& lock, CopyPointer copy) const {
  if (copy->behind != nullptr) Finish(lock, copy->behind);
  if (copy->is_settled) return;
  if (copy->is_compressed) {
    while (!copy->is_over) {
      const std::uint64_t seen = ended_.changes();
      CollectEnded();
      if (!copy->is_over) AwaitChange(lock, seen, absl::InfiniteFuture());
    }
    return Settle(copy, copy->result);
  }
  const bool is_marked = Mark(*copy).ok();
  lock.unlock();
  const absl::Status result = WaitOnHost(*copy, is_marked);
  lock.lock();
  CollectEnded();
  Settle(copy, result);
}

// As far as that can be told without waiting.
bool OffloaderImpl::IsOver(BufferCopy& copy) const {
  if (copy.is_compressed) return copy.is_over;
  return Mark(copy).ok() && device_.QueryEvent(copy.event.get()).value_or(false);
}

// False when it is not over by the deadline.
bool OffloaderImpl::FinishBy(Lock& lock, const CopyPointer& copy, absl::Time deadline) const {
  while (deadline != absl::InfiniteFuture() && !copy->is_settled && !IsOver(*copy)) {
    if (absl::Now() >= deadline) return false;
    AwaitChange(lock, ended_.changes(), absl::Now() + kLook);
  }
  Finish(lock, copy);
  return true;
}

// Only the first time. What a copy out comes behind is settled before it.
void OffloaderImpl::Settle(const CopyPointer& copy, const absl::Status& result) const {
  if (copy->is_settled) return;
  copy->is_settled = true;
  copy->result = result;
  CountEnd(*copy);
  if (const std::shared_ptr<DeviceMemory> device = copy->device.lock();
      device != nullptr && !copy->is_compressed) {
    copy->is_out ? device->EndOut(copy->sequence) : device->EndIn();
  }
  copy->behind = nullptr;
  copy->held = nullptr;
  if (const auto found = buffers_.find(copy->buffer.id); found != buffers_.end()) {
    copy->is_out ? SettleOut(*found->second, copy) : SettleIn(*found->second, copy);
  } else if (!copy->is_out && !copy->result.ok()) {
    NoteLost(copy);
  }
  copy->host = nullptr;
  // The pipeline may have the copy for longer than there are events.
  if (copy->is_compressed) copy->event = PooledEvent();
  Changed();
  Copies& copies = copy->is_out ? outs_ : ins_;
  copies.erase(std::find(copies.begin(), copies.end(), copy));
}

void OffloaderImpl::CountEnd(const BufferCopy& copy) const {
  if (!copy.result.ok()) {
    const bool is_refused = copy.is_out && absl::IsResourceExhausted(copy.result);
    ++(is_refused ? stats_.refused : stats_.failures);
    return;
  }
  ++(copy.is_out ? stats_.offloads : stats_.prefetches);
  (copy.is_out ? stats_.bytes_out : stats_.bytes_in) += copy.bytes;
}

void OffloaderImpl::SettleOut(Buffer& buffer, const CopyPointer& copy) {
  if (buffer.copy != copy) return;  // it stayed
  buffer.copy = nullptr;
  if (copy->result.ok()) {
    buffer.host = copy->host;
    buffer.device = nullptr;
    return Move(buffer, BufferState::kOut);
  }
  buffer.failed = copy;
  buffer.device->SetLeaving(false);
  Move(buffer, BufferState::kOnDevice);
}

// A copy in failed, and its buffer does not say so any more. It is kept where work comes after it:
// the first of all, and each whose memory stays until its error is told.
void OffloaderImpl::NoteLost(const CopyPointer& copy) const {
  if (copy->awaited_on.empty()) return;
  const auto place = std::ranges::upper_bound(lost_, copy->sequence, {}, &BufferCopy::sequence);
  const bool is_first = place == lost_.begin();
  if (is_first && !lost_.empty() && lost_.front()->promised == nullptr) lost_.pop_front();
  if (is_first) {
    lost_.push_front(copy);
  } else if (copy->promised != nullptr) {
    lost_.insert(place, copy);
  }
}

// Of an error that nobody was told of.
void OffloaderImpl::Forget(Buffer& buffer) const {
  const CopyPointer failed = std::exchange(buffer.failed, nullptr);
  if (failed != nullptr && !failed->is_out) NoteLost(failed);
}

void OffloaderImpl::SettleIn(Buffer& buffer, const CopyPointer& copy) const {
  // It may be on its way out already, behind this copy.
  const bool is_coming = buffer.copy == copy;
  const bool is_behind = buffer.copy != nullptr && buffer.copy->behind == copy;
  if (copy->result.ok() && is_coming) {
    buffer.copy = nullptr;
    buffer.host = nullptr;
    return Move(buffer, BufferState::kOnDevice);
  }
  if (copy->result.ok() || (!is_coming && !is_behind)) return;
  Forget(buffer);
  if (is_behind) GiveUp(buffer.copy);
  buffer.copy = nullptr;
  buffer.failed = copy;
  buffer.host = copy->host;
  if (is_coming && copy->is_promised) copy->promised = std::move(buffer.device);
  buffer.device = nullptr;
  Move(buffer, BufferState::kOut);
}

// What came back is of no use on the host any more.
void OffloaderImpl::SettleArrivals() const {
  bool is_raw_under_way = false;  // and so are those behind it
  for (auto it = ins_.begin(); it != ins_.end();) {
    const CopyPointer copy = *it++;
    if (!copy->is_compressed && is_raw_under_way) continue;
    if (!IsOver(*copy)) {
      is_raw_under_way |= !copy->is_compressed;
      continue;
    }
    const bool is_asked_for = options_.release == OffloaderOptions::Release::kWhenAwaited &&
                              copy->held != nullptr && copy->held->is_leaving();
    if (!is_asked_for) Settle(copy, copy->result);
  }
  DropUnwanted();
}

// What is over has nothing left for the host to keep. Where memory of the device lies must not
// depend on it: that of compressed copies stays with them until they are asked for. One that is not
// over holds up those behind it, which are not either as a rule: so each is looked at once, not
// with every call.
void OffloaderImpl::DropUnwanted() const {
  while (!unwanted_.empty()) {
    const CopyPointer copy = unwanted_.front();
    const bool is_first = copy->behind == nullptr || copy->behind->is_settled;
    if (!copy->is_settled && (!is_first || !IsOver(*copy))) return;
    unwanted_.pop_front();
    if (copy->is_compressed) {
      copy->host = nullptr;
    } else {
      Settle(copy, copy->result);
    }
  }
}

// Of a thread for raw copies, or for compressed ones: a raw one is waited for, and would hold up
// the others.
void OffloaderImpl::GiveBackWhenOut(bool is_compressed) {
  Lock lock = Enter();
  for (;;) {
    const std::uint64_t seen = ended_.changes();
    CollectEnded();
    if (is_compressed) SettleArrivals();
    const auto next = std::find_if(outs_.begin(), outs_.end(), [&](const CopyPointer& copy) {
      return copy->is_compressed == is_compressed && (!is_compressed || copy->is_over);
    });
    if (next != outs_.end()) {
      Finish(lock, *next);
    } else if (is_ending_) {
      return;
    } else {
      AwaitChange(lock, seen, absl::InfiniteFuture());
    }
  }
}

}  // namespace tidepool::offload
