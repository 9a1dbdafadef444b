// SPDX-License-Identifier: Apache-2.0
// Raw copies on the device: how they are queued, and how their ends are seen.
#include "lib/copies/offload/raw_copies.h"

#include <memory>
#include <utility>

#include "lib/copies/offload/copy_watch.h"

namespace tidepool::offload {

absl::Status RawCopies::Start(bool is_one_stream) {
  absl::StatusOr<device::OwnedStream> out = device::OwnedStream::Create(device_);
  if (!out.ok()) return out.status();
  out_ = *std::move(out);
  if (is_one_stream) return absl::OkStatus();
  absl::StatusOr<device::OwnedStream> in = device::OwnedStream::Create(device_);
  if (in.ok()) in_ = *std::move(in);
  return in.status();
}

absl::Status RawCopies::TakeEvent(BufferCopy& copy) {
  return copy.end.Ensure(device_, EventKind::kWaited);
}

absl::Status RawCopies::QueueOut(const Buffer& buffer, const CopyWatch& watch, BufferCopy& copy) {
  RecordWatch(device_, watch.begins, out());
  absl::Status status = device_.Copy(copy.host->address(), buffer.device->address(), buffer.bytes,
                                     CopyDirection::kFromDevice, out());
  if (!status.ok()) return status;
  RecordWatch(device_, watch.ends, out());
  buffer.device->NoteUnorderedOut(copy.sequence);
  RecordEnd(copy).IgnoreError();  // repeated when the event is needed
  return absl::OkStatus();
}

absl::Status RawCopies::QueueIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                                const CopyWatch& watch, BufferCopy& copy) {
  const auto before = device::OwnedEvent::Record(device_, stream);
  if (!before.ok()) return before.status();
  absl::Status status = device_.WaitEvent(in(), before->get());
  if (!status.ok()) return status;
  RecordWatch(device_, watch.begins, in());
  status = device_.Copy(to.address(), buffer.host->address(), buffer.bytes,
                        CopyDirection::kToDevice, in());
  if (!status.ok()) return status;
  RecordWatch(device_, watch.ends, in());
  to.NoteUnorderedIn();
  RecordEnd(copy).IgnoreError();  // repeated when the event is needed
  return absl::OkStatus();
}

absl::Status RawCopies::RecordEnd(BufferCopy& copy) {
  if (copy.is_recorded) return absl::OkStatus();
  absl::Status status = device_.RecordEvent(copy.end.get(), copy.is_out ? out() : in());
  copy.is_recorded = status.ok();
  return status;
}

absl::Status RawCopies::MakeWait(Stream stream, BufferCopy& copy) {
  absl::Status status = RecordEnd(copy);
  return status.ok() ? device_.WaitEvent(stream, copy.end.get()) : status;
}

bool RawCopies::HasFinished(BufferCopy& copy) {
  return RecordEnd(copy).ok() && device_.QueryEvent(copy.end.get()).value_or(false);
}

// Prefers the copy's own event. Synchronizes the whole stream only as a last resort: work that was
// queued there later may wait for this copy to be settled.
absl::Status RawCopies::WaitForEnd(const BufferCopy& copy, bool is_recorded) const {
  constexpr int kTries = 2;
  absl::Status first;
  const auto has_finished = [&](const absl::Status& status) {
    first.Update(status);
    return status.ok();
  };
  for (int i = 0; i < kTries && is_recorded; ++i) {
    if (has_finished(device_.SynchronizeEvent(copy.end.get()))) return first;
  }
  for (int i = 0; i < kTries; ++i) {
    if (has_finished(device_.SynchronizeStream(copy.is_out ? out() : in()))) return first;
  }
  return first;
}

void RawCopies::OrderHomeAfter(BufferCopy& copy) {
  const std::shared_ptr<DeviceMemory> device = copy.device.lock();
  if (copy.is_settled || device == nullptr || !MakeWait(device->home(), copy).ok()) return;
  copy.is_out ? device->NoteOrderedOut(copy.sequence) : device->NoteOrderedIn();
  copy.device.reset();
}

}  // namespace tidepool::offload
