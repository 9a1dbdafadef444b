// The streams of a device, by name: those it created and those it was shown.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_CUDA_STREAMS_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_CUDA_STREAMS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/cuda/marks.h"
#include "lib/device/names.h"
#include "tidepool/device.h"

namespace tidepool::cuda {

// Thread-safe. The device is current in every call that may call CUDA. The pool outlives it.
class CudaStreams {
 public:
  CudaStreams(int ordinal, EventPool* pool) : ordinal_(ordinal), pool_(*pool) {}
  // Destroys those that were created here.
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  absl::StatusOr<Stream> Create();
  // `has_replaced`: the stream has the handle of one that was destroyed unseen, whose name is gone.
  struct Wrapped {
    Stream stream;
    bool has_replaced = false;
  };
  absl::StatusOr<Wrapped> Wrap(cudaStream_t native);
  enum class Which : std::uint8_t { kAny, kWrapped };
  absl::Status Destroy(Stream stream, Which which);

  // Forgets streams that were not created here and cannot be asked for their end any more: when
  // there are any it waits for the device. How many.
  enum class Forgotten : std::uint8_t { kLost, kWrapped };
  absl::StatusOr<int> Forget(Forgotten which);

  // Calls `use` with what is to be given to CUDA for a stream that takes work. Whoever destroys the
  // stream waits for that.
  template <typename Function>
  absl::Status Use(Stream stream, Function use) const {
    const absl::StatusOr<SharedEntry> entry = Find(stream);
    if (!entry.ok()) return entry.status();
    const std::shared_lock lock((*entry)->mutex);
    return (*entry)->is_gone ? NoStream(stream) : use(NativeOf(**entry));
  }
  bool Has(Stream stream) const { return Find(stream).ok(); }
  // After all that a destroyed stream was ever given; NotFound for one that never was.
  absl::StatusOr<SharedMark> EndOf(Stream stream) const;

 private:
  enum class Kind : std::uint8_t { kCreated, kWrapped, kOfThread };
  struct Entry {
    Kind kind = Kind::kCreated;
    cudaStream_t native = nullptr;
    std::uint64_t thread = 0;   // whose own it is
    unsigned long long id = 0;  // CUDA's; 0 where there is none
    std::shared_mutex mutex;    // held by who uses it, and alone by who ends it
    bool is_gone = false;
  };
  using SharedEntry = std::shared_ptr<Entry>;

  static absl::Status NoStream(Stream stream);
  static cudaStream_t NativeOf(const Entry& entry);

  absl::StatusOr<SharedEntry> Find(Stream stream) const;
  Stream Add(Kind kind, cudaStream_t native, unsigned long long id, std::uint64_t thread);
  Stream WrapOwnOfThread();
  absl::StatusOr<bool> IsLost(const Entry& entry) const;
  absl::Status ForgetReplaced(Stream stream);
  void ForgetIdle(Stream stream, Entry& entry);
  void ForgetEnded();

  const int ordinal_;
  EventPool& pool_;
  mutable std::mutex mutex_;  // of what is below; CUDA is not called under it
  device::Names names_;
  absl::flat_hash_map<std::uint64_t, SharedEntry> entries_;
  absl::flat_hash_map<cudaStream_t, std::uint64_t> by_native_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> by_thread_;
  absl::flat_hash_map<std::uint64_t, SharedMark> ends_;  // of destroyed streams with work left
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_CUDA_STREAMS_H_
