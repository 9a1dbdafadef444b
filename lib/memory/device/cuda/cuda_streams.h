// SPDX-License-Identifier: Apache-2.0
// The streams of a device, by name: streams created here, and wrapped streams.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_STREAMS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_STREAMS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/cuda/cuda_events.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/cuda_device.h"
#include "tidepool/device.h"

namespace tidepool::cuda {

// Thread-safe. The device is current in every call that may call CUDA. The pool outlives it.
class CudaStreams {
 public:
  CudaStreams(int ordinal, NativeEventPool* pool) : ordinal_(ordinal), pool_(*pool) {}
  // Destroys the streams that were created here.
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  absl::StatusOr<Stream> Create();
  // The result of Wrap. `has_replaced`: the handle belonged to a stream that was destroyed without
  // being unwrapped. The name of that stream is unknown from now on.
  struct Wrapped {
    Stream stream;
    bool has_replaced = false;
  };
  absl::StatusOr<Wrapped> Wrap(cudaStream_t native, StreamPromise promise);
  enum class Which : std::uint8_t { kAny, kWrapped };
  absl::Status Destroy(Stream stream, Which which);

  // Waits for the device and forgets all wrapped streams without using their handles. Returns their
  // number.
  absl::StatusOr<int> ForgetWrapped();

  // Calls `use` with the native handle of a stream that takes work. Destroy waits until `use` has
  // returned.
  template <typename Function>
  absl::Status Use(Stream stream, Function use) const {
    const absl::StatusOr<SharedEntry> entry = Find(stream);
    if (!entry.ok()) return entry.status();
    const locks::ReaderMutexLock lock(&(*entry)->mutex);
    return (*entry)->is_gone ? NoStream(stream) : use(NativeOf(**entry));
  }
  bool Has(Stream stream) const { return Find(stream).ok(); }
  // Whether the stream was wrapped without a promise.
  bool MayEnd(Stream stream) const {
    const absl::StatusOr<SharedEntry> entry = Find(stream);
    return entry.ok() && (*entry)->may_end;
  }
  // Returns the recording after all work that a destroyed stream was ever given. NotFound for a
  // name that never was a stream.
  absl::StatusOr<SharedRecording> EndOf(Stream stream) const;
  // Returns whether the stream was destroyed or forgotten, and its last work may not be recorded.
  bool MayHaveEndedUnrecorded(Stream stream) const;

 private:
  enum class Kind : std::uint8_t { kCreated, kWrapped, kOfThread };
  struct Entry {
    Kind kind = Kind::kCreated;
    cudaStream_t native = nullptr;
    std::uint64_t thread = 0;   // the owner of a stream of kind kOfThread
    unsigned long long id = 0;  // CUDA's id of the stream, 0: unknown
    bool may_end = false;       // set before other threads find the entry
    locks::SharedMutex mutex;   // shared by uses of the stream, exclusive to end it
    bool is_gone ABSL_GUARDED_BY(mutex) = false;
  };
  using SharedEntry = std::shared_ptr<Entry>;

  static absl::Status NoStream(Stream stream);
  static cudaStream_t NativeOf(const Entry& entry);

  absl::StatusOr<SharedEntry> Find(Stream stream) const;
  Stream Add(Kind kind, cudaStream_t native, unsigned long long id, std::uint64_t thread)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Stream WrapOwnOfThread();
  void ForgetReplaced(Stream stream);
  void ForgetEntry(Stream stream, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);
  void ForgetEnded();

  const int ordinal_;
  NativeEventPool& pool_;
  mutable locks::Mutex mutex_;  // guards the members below; CUDA is not called under it
  device::NameSource names_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, SharedEntry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<cudaStream_t, std::uint64_t> by_native_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, std::uint64_t> by_thread_ ABSL_GUARDED_BY(mutex_);
  bool has_unrecorded_ ABSL_GUARDED_BY(mutex_) = false;  // a stream was forgotten with its work
  // The ends of destroyed streams with work left.
  absl::flat_hash_map<std::uint64_t, SharedRecording> ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_STREAMS_H_
