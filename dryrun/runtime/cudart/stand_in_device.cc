// SPDX-License-Identifier: Apache-2.0
// The order between the legacy stream and the others is made of events of the host device.
// Recording them and queuing the work happen under one lock: otherwise each of two threads could
// come before the other.
#include "dryrun/runtime/cudart/stand_in_device.h"

#include <algorithm>

#include "dryrun/runtime/cudart/settings.h"

namespace tidepool::cudart_host {
namespace {

std::uintptr_t NewContextHandle() {
  static std::atomic<std::uintptr_t> last = 0x5000;
  return last += 0x10;
}

}  // namespace

StandInDevice::StandInDevice(int ordinal, const CudartHostConfig& config)
    : ordinal_(ordinal),
      context_handle_(NewContextHandle()),
      memory_bytes_(config.memory_bytes),
      host_(HostDevice::Create(DeviceOptions(config)).value()),
      legacy_(host_->CreateStream().value()),
      scratch_(host_->CreateEvent().value()) {
  streams_.emplace(legacy_.id, StreamKind::kLegacy);
}

std::int64_t StandInDevice::free_bytes() {
  const locks::MutexLock lock(&memory_mutex_);
  return host_->memory_bytes() - host_->used_bytes() - library_bytes_;
}

absl::StatusOr<void*> StandInDevice::AllocateMemory(std::int64_t bytes) {
  const locks::MutexLock lock(&memory_mutex_);
  if (absl::Status status = CheckRoom(bytes); !status.ok()) return status;
  return host_->AllocateMemory(bytes);
}

absl::StatusOr<PhysicalMemory> StandInDevice::CreatePhysical(std::int64_t bytes) {
  const locks::MutexLock lock(&memory_mutex_);
  if (absl::Status status = CheckRoom(bytes); !status.ok()) return status;
  return host_->CreatePhysical(bytes);
}

absl::Status StandInDevice::TakeForLibrary(std::int64_t bytes) {
  const locks::MutexLock lock(&memory_mutex_);
  if (absl::Status status = CheckRoom(bytes); !status.ok()) return status;
  library_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status StandInDevice::CheckRoom(std::int64_t bytes) const {
  const std::int64_t rest = host_->memory_bytes() - host_->used_bytes() - library_bytes_;
  return bytes > rest ? absl::ResourceExhaustedError("the device has no room") : absl::OkStatus();
}

absl::StatusOr<Stream> StandInDevice::CreateStream(StreamKind kind) {
  const locks::MutexLock lock(&mutex_);
  absl::StatusOr<Stream> stream = host_->CreateStream();
  if (stream.ok()) streams_.emplace(stream->id, kind);
  return stream;
}

absl::Status StandInDevice::DestroyStream(Stream stream, StreamKind kind) {
  const locks::MutexLock lock(&mutex_);
  ForgetFinished();
  const absl::StatusOr<Event> end = host_->CreateEvent();
  if (!end.ok()) return end.status();
  if (absl::Status status = host_->DestroyStream(stream); !status.ok()) return status;
  clock_.DestroyStream(stream.id, kind);
  streams_.erase(stream.id);
  ended_.push_back({*end, kind});
  return host_->RecordEvent(*end, stream);
}

absl::StatusOr<Stream> StandInDevice::PerThreadStream() {
  const locks::MutexLock lock(&mutex_);
  const auto found = per_thread_.find(std::this_thread::get_id());
  if (found != per_thread_.end()) return found->second;
  absl::StatusOr<Stream> stream = host_->CreateStream();
  if (!stream.ok()) return stream;
  streams_.emplace(stream->id, StreamKind::kBlocking);
  per_thread_.emplace(std::this_thread::get_id(), *stream);
  return stream;
}

absl::StatusOr<bool> StandInDevice::IsIdle(Stream stream, StreamKind kind) {
  const absl::StatusOr<Event> end = host_->CreateEvent();
  if (!end.ok()) return end.status();
  absl::Status status = Enqueue(stream, kind, [&] { return host_->RecordEvent(*end, stream); });
  absl::StatusOr<bool> has_finished = status.ok() ? host_->QueryEvent(*end) : status;
  host_->DestroyEvent(*end).IgnoreError();
  return has_finished;
}

absl::Status StandInDevice::Synchronize(Stream stream, StreamKind kind) {
  clock_.WaitOnHost(clock_.EndOf(stream.id, kind));
  const absl::Status status = Enqueue(stream, kind, [] { return absl::OkStatus(); });
  return status.ok() ? host_->SynchronizeStream(stream) : status;
}

absl::Status StandInDevice::SynchronizeAll() {
  clock_.WaitOnHost(clock_.end());
  std::vector<Event> ends;
  absl::Status status;
  {
    const locks::MutexLock lock(&mutex_);
    ForgetFinished();
    for (const auto& [name, kind] : streams_) {
      const absl::StatusOr<Event> end = host_->CreateEvent();
      if (!end.ok()) return end.status();
      status.Update(host_->RecordEvent(*end, {.id = name}));
      ends.push_back(*end);
    }
    // These events may be destroyed during the wait; then their streams have finished.
    for (const Ended& ended : ended_) ends.push_back(ended.event);
  }
  for (const Event end : ends) {
    const absl::Status waited = host_->SynchronizeEvent(end);
    if (!absl::IsNotFound(waited)) status.Update(waited);
  }
  const locks::MutexLock lock(&mutex_);
  const auto is_kept = [&](Event end) {
    mutex_.AssertHeld();
    return std::any_of(ended_.begin(), ended_.end(),
                       [&](const Ended& ended) { return ended.event == end; });
  };
  for (const Event end : ends) {
    if (!is_kept(end)) host_->DestroyEvent(end).IgnoreError();
  }
  return status;
}

bool StandInDevice::IsAllIdle() {
  const locks::MutexLock lock(&mutex_);
  ForgetFinished();
  if (!ended_.empty()) return false;
  return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return host_->RecordEvent(scratch_, {.id = stream.first}).ok() &&
           host_->QueryEvent(scratch_).value_or(false);
  });
}

absl::Status StandInDevice::FreeLater(void* address, Stream stream, StreamKind kind) {
  const absl::StatusOr<Event> end = host_->CreateEvent();
  if (!end.ok()) return end.status();
  return Enqueue(stream, kind, [&] {
    mutex_.AssertHeld();  // by Enqueue
    late_frees_.push_back({address, *end});
    return host_->RecordEvent(*end, stream);
  });
}

void StandInDevice::FreeDueMemory() {
  const locks::MutexLock lock(&mutex_);
  std::erase_if(late_frees_, [&](const LateFree& late) {
    if (!host_->QueryEvent(late.event).value_or(false)) return false;
    host_->FreeMemory(late.address).IgnoreError();
    host_->DestroyEvent(late.event).IgnoreError();
    return true;
  });
}

bool StandInDevice::EnablePeer(int ordinal) {
  const locks::MutexLock lock(&mutex_);
  return peers_.insert(ordinal).second;
}

bool StandInDevice::DisablePeer(int ordinal) {
  const locks::MutexLock lock(&mutex_);
  return peers_.erase(ordinal) == 1;
}

bool StandInDevice::HasPeer(int ordinal) {
  const locks::MutexLock lock(&mutex_);
  return peers_.contains(ordinal);
}

absl::Status StandInDevice::TakeTurn(Stream stream, StreamKind kind) {
  if (kind == StreamKind::kNonBlocking) return absl::OkStatus();
  if (kind == StreamKind::kBlocking) return Join(legacy_, stream);
  absl::Status status;
  for (const auto& [name, other] : streams_) {
    if (other == StreamKind::kBlocking) status.Update(Join({.id = name}, stream));
  }
  ForgetFinished();
  for (const Ended& ended : ended_) {
    if (ended.kind == StreamKind::kBlocking) status.Update(host_->WaitEvent(stream, ended.event));
  }
  return status;
}

absl::Status StandInDevice::Join(Stream from, Stream to) {
  const absl::Status status = host_->RecordEvent(scratch_, from);
  return status.ok() ? host_->WaitEvent(to, scratch_) : status;
}

void StandInDevice::ForgetFinished() {
  std::erase_if(ended_, [&](const Ended& ended) {
    if (!host_->QueryEvent(ended.event).value_or(true)) return false;
    host_->DestroyEvent(ended.event).IgnoreError();
    return true;
  });
}

}  // namespace tidepool::cudart_host
