// SPDX-License-Identifier: Apache-2.0
// When a stream is destroyed, a native event is recorded as its last work. Once that event has
// finished, nothing of the stream is kept: its name is recognised without being kept. Nothing is
// recorded of a stream that may have been destroyed already: the work of the whole device, at any
// later time, stands for its work.
//
// A thread cannot name another thread's own stream (cudaStreamPerThread). The legacy stream
// serves instead. It is ordered with the per-thread streams: its work runs after all work that the
// other thread queued before, and before all work that it queues later.
#include "lib/memory/device/cuda/cuda_streams.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

// Returns a number for the calling thread. Unlike the system's numbers, it is never given again.
std::uint64_t ThisThread() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

constexpr unsigned long long kUnknownId = 0;

// Asks CUDA about a stream that the caller names. A capture does not survive questions about its
// stream, so the id of a capturing stream stays unknown.
#if CUDART_VERSION >= 12080
absl::Status Identify(cudaStream_t native, int ordinal, unsigned long long& id) {
  auto capture = cudaStreamCaptureStatusNone;
  absl::Status status =
      Check(cudaStreamIsCapturing(native, &capture), "cudaStreamIsCapturing", native);
  if (!status.ok() || capture != cudaStreamCaptureStatusNone) return status;
  int device = 0;
  status = Check(cudaStreamGetDevice(native, &device), "cudaStreamGetDevice", native);
  if (!status.ok()) return status;
  if (device != ordinal) {
    return absl::InvalidArgumentError(
        absl::StrCat("the stream is one of device ", device, ", expected one of device ", ordinal));
  }
  return Check(cudaStreamGetId(native, &id), "cudaStreamGetId", native);
}
#else
absl::Status Identify(cudaStream_t native, int /*ordinal*/, unsigned long long& /*id*/) {
  auto capture = cudaStreamCaptureStatusNone;
  return Check(cudaStreamIsCapturing(native, &capture), "cudaStreamIsCapturing", native);
}
#endif

}  // namespace

CudaStreams::~CudaStreams() {
  for (const auto& [name, entry] : entries_) {
    if (entry->kind != Kind::kCreated) continue;
    TryTwice([native = entry->native] { return cudaStreamDestroy(native); });
  }
}

absl::StatusOr<Stream> CudaStreams::Create() {
  cudaStream_t native = nullptr;
  absl::Status status = Check(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking),
                              "cudaStreamCreateWithFlags", "cudaStreamNonBlocking");
  if (!status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  return Add(Kind::kCreated, native, 0, 0);
}

absl::StatusOr<CudaStreams::Wrapped> CudaStreams::Wrap(cudaStream_t native, StreamPromise promise) {
  if (native == cudaStreamPerThread) return Wrapped{.stream = WrapOwnOfThread()};
  if (native == nullptr) native = cudaStreamLegacy;
  unsigned long long id = 0;
  if (native != cudaStreamLegacy) {
    absl::Status status = Identify(native, ordinal_, id);
    if (!status.ok()) return status;
  } else {
    promise = StreamPromise::kUnwraps;  // it never ends
  }
  bool has_replaced = false;
  while (true) {
    Stream known;
    {
      const locks::MutexLock lock(&mutex_);
      const auto found = by_native_.find(native);
      if (found == by_native_.end()) {
        const Stream added = Add(Kind::kWrapped, native, id, 0);
        entries_.at(added.id)->may_end = promise == StreamPromise::kNone;
        return Wrapped{added, has_replaced};
      }
      known.id = found->second;
      Entry& entry = *entries_.at(known.id);
      if (entry.id == kUnknownId) entry.id = id;
      if (entry.kind == Kind::kCreated || id == kUnknownId || entry.id == id) {
        return Wrapped{known, has_replaced};
      }
    }
    ForgetReplaced(known);
    has_replaced = true;
  }
}

absl::Status CudaStreams::Destroy(Stream stream, Which which) {
  const absl::StatusOr<SharedEntry> found = Find(stream);
  if (!found.ok()) return found.status();
  Entry& entry = **found;
  if (which == Which::kWrapped && entry.kind == Kind::kCreated) {
    return absl::InvalidArgumentError("the stream was created here, expected one that was wrapped");
  }
  {
    const locks::WriterMutexLock in_use(&entry.mutex);
    if (entry.is_gone) return NoStream(stream);
    if (entry.may_end) {
      entry.is_gone = true;
      const locks::MutexLock lock(&mutex_);
      by_native_.erase(entry.native);
      entries_.erase(stream.id);
      has_unrecorded_ = true;
      return absl::OkStatus();
    }
    absl::StatusOr<SharedRecording> last = MakeRecording(pool_);
    if (!last.ok()) return last.status();
    absl::Status status = Record(**last, NativeOf(entry));
    if (!status.ok()) return status;
    if (entry.kind == Kind::kCreated) {
      // Another stream may get the handle as soon as this one is destroyed.
      {
        const locks::MutexLock lock(&mutex_);
        by_native_.erase(entry.native);
      }
      status = Check(cudaStreamDestroy(entry.native), "cudaStreamDestroy", entry.native);
      if (!status.ok()) {
        const locks::MutexLock lock(&mutex_);
        by_native_.emplace(entry.native, stream.id);
        return status;
      }
    }
    entry.is_gone = true;
    const locks::MutexLock lock(&mutex_);
    if (entry.kind == Kind::kWrapped) by_native_.erase(entry.native);
    if (entry.kind == Kind::kOfThread) by_thread_.erase(entry.thread);
    entries_.erase(stream.id);
    ends_.emplace(stream.id, *std::move(last));
  }
  ForgetEnded();
  return absl::OkStatus();
}

absl::StatusOr<SharedRecording> CudaStreams::EndOf(Stream stream) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = ends_.find(stream.id);
  if (found != ends_.end()) return found->second;
  if (names_.HasGiven(stream.id)) return SharedRecording();
  return NoStream(stream);
}

bool CudaStreams::MayHaveEndedUnrecorded(Stream stream) const {
  const locks::MutexLock lock(&mutex_);
  return has_unrecorded_ && names_.HasGiven(stream.id) && !entries_.contains(stream.id) &&
         !ends_.contains(stream.id);
}

absl::Status CudaStreams::NoStream(Stream stream) {
  return absl::NotFoundError(absl::StrCat("the device has no stream ", stream.id));
}

cudaStream_t CudaStreams::NativeOf(const Entry& entry) {
  if (entry.kind != Kind::kOfThread) return entry.native;
  return entry.thread == ThisThread() ? cudaStreamPerThread : cudaStreamLegacy;
}

absl::StatusOr<CudaStreams::SharedEntry> CudaStreams::Find(Stream stream) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = entries_.find(stream.id);
  if (found == entries_.end()) return NoStream(stream);
  return found->second;
}

Stream CudaStreams::Add(Kind kind, cudaStream_t native, unsigned long long id,
                        std::uint64_t thread) {
  const std::uint64_t name = names_.Next();
  auto entry = std::make_shared<Entry>();
  entry->kind = kind;
  entry->native = native;
  entry->id = id;
  entry->thread = thread;
  entries_.emplace(name, std::move(entry));
  if (kind == Kind::kOfThread) {
    by_thread_.emplace(thread, name);
  } else {
    by_native_.emplace(native, name);
  }
  return {.id = name};
}

Stream CudaStreams::WrapOwnOfThread() {
  const locks::MutexLock lock(&mutex_);
  const auto found = by_thread_.find(ThisThread());
  if (found != by_thread_.end()) return {.id = found->second};
  return Add(Kind::kOfThread, cudaStreamPerThread, 0, ThisThread());
}

// Forgets a stream after its handle was reused. Nothing can be recorded in it any more, but its
// work may still run.
void CudaStreams::ForgetReplaced(Stream stream) {
  const absl::StatusOr<SharedEntry> found = Find(stream);
  if (!found.ok()) return;  // another thread forgot it
  Entry& entry = **found;
  const locks::WriterMutexLock in_use(&entry.mutex);
  if (entry.is_gone) return;
  ForgetEntry(stream, entry);
  const locks::MutexLock lock(&mutex_);
  has_unrecorded_ = true;
}

// Forgets a stream without a recording of its end.
void CudaStreams::ForgetEntry(Stream stream, Entry& entry) {
  entry.is_gone = true;
  const locks::MutexLock lock(&mutex_);
  if (entry.kind == Kind::kOfThread) {
    by_thread_.erase(entry.thread);
  } else {
    by_native_.erase(entry.native);
  }
  entries_.erase(stream.id);
}

absl::StatusOr<int> CudaStreams::ForgetWrapped() {
  std::vector<std::pair<std::uint64_t, SharedEntry>> wrapped;
  {
    const locks::MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->kind != Kind::kCreated) wrapped.emplace_back(name, entry);
    }
  }
  if (wrapped.empty()) return 0;
  absl::Status status = Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (!status.ok()) return status;
  int count = 0;
  for (const auto& [name, entry] : wrapped) {
    const locks::WriterMutexLock in_use(&entry->mutex);
    if (entry->is_gone) continue;
    ForgetEntry({.id = name}, *entry);
    ++count;
  }
  return count;
}

void CudaStreams::ForgetEnded() {
  std::vector<std::pair<std::uint64_t, SharedRecording>> ends;
  {
    const locks::MutexLock lock(&mutex_);
    ends.assign(ends_.begin(), ends_.end());
  }
  for (const auto& [name, recording] : ends) {
    // An end that cannot be queried now is queried again by the next call.
    if (!HasFinished(recording).value_or(false)) continue;
    const locks::MutexLock lock(&mutex_);
    ends_.erase(name);
  }
}

}  // namespace tidepool::cuda
