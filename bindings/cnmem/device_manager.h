// The memory of one device: a pool for all of its streams, and who may have what of it.
#ifndef TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_
#define TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/cnmem/memory_state.h"
#include "bindings/cnmem/out_of_memory.h"
#include "bindings/cnmem/settings.h"
#include "bindings/cnmem/stream_manager.h"
#include "bindings/cnmem/stream_table.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"

namespace tidepool::cnmem {

// What cnmemInit was told of a device, in CNMeM's words.
struct DeviceRequest {
  struct StreamRequest {
    cudaStream_t native = nullptr;
    std::size_t reserved_bytes = 0;
  };

  int ordinal = 0;
  std::vector<std::size_t> sizes;  // together; 0 is half of the device
  std::vector<StreamRequest> streams;
  unsigned flags = 0;
};

// Thread-safe. The device need not be current, and which one is current stays as it is.
class DeviceManager {
 public:
  // InvalidArgument for a size that the device cannot give, ResourceExhausted for one that it has
  // not left.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> Create(const DeviceRequest& request,
                                                               const Settings& settings);
  ~DeviceManager();
  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // Below, InvalidArgument for a stream that is not registered; null always is.

  absl::Status Register(cudaStream_t native);
  absl::StatusOr<void*> Allocate(std::size_t bytes, cudaStream_t native);
  absl::Status Free(void* address, cudaStream_t native);
  // O(blocks).
  absl::StatusOr<MemoryState> State(cudaStream_t native) const;

  // Waits for the device and gives everything back, what is live included. Once, last; nobody else
  // calls anything then. An error when something was not given back.
  absl::Status Close();
  // Whether the device was reset since: then CUDA has all memory back, and no handle from before is
  // good any more. Then Report takes the place of Close, and this is never destroyed.
  bool WasReset() const;
  // Writes what was recorded, and prints the statistics if they are wanted: for a process that ends
  // without Close. Calls no CUDA.
  void Report() const;

 private:
  DeviceManager(const Settings& settings, std::unique_ptr<CudaDevice> device)
      : settings_(settings), device_(std::move(device)) {}

  absl::Status Start(const DeviceRequest& request);
  void StartRecorder();
  absl::Status StartPool(std::int64_t initial_bytes, std::int64_t max_bytes);
  PoolOptions InSegments(std::int64_t initial_bytes, std::int64_t max_bytes) const;
  PoolOptions Options(std::int64_t initial_bytes, std::int64_t max_bytes) const;
  std::int64_t BudgetOf(std::int64_t bytes) const;
  absl::StatusOr<StreamManager*> Add(cudaStream_t native);

  // The manager of a stream; null when it is not registered.
  StreamManager* Find(cudaStream_t native) const {
    return native == nullptr ? default_.get() : streams_.Find(native);
  }
  absl::StatusOr<Stream> NameOf(StreamManager& manager);
  absl::StatusOr<void*> TryAllocate(std::size_t bytes, StreamManager& manager);
  absl::StatusOr<void*> AllocateFromPool(std::size_t bytes, Stream stream);
  absl::Status Explained(const absl::Status& status, std::size_t bytes) const;
  absl::Status FindLostStreams(StreamManager& manager);
  Pool* PoolOf(const void* address, StreamManager& manager);
  absl::Status FreeForOther(Pool& pool, void* address, StreamManager& manager);
  static absl::Status FreeAll(Pool& pool, Stream stream);
  std::vector<StreamManager*> Managers() const;

  const Settings settings_;
  bool is_managed_ = false;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Pool> pool_;      // null when all memory is reserved and there cannot be more
  std::int64_t initial_bytes_ = 0;  // asked for
  std::int64_t initially_held_bytes_ = 0;
  std::int64_t max_bytes_ = 0;
  Limit limit_ = Limit::kDevice;

  std::unique_ptr<StreamManager> default_;
  StreamTable streams_;
  mutable std::mutex mutex_;  // of registering
  std::vector<std::unique_ptr<StreamManager>> managers_;
  std::vector<Reserve*> reserves_;  // of managers; set before others see this
  bool is_closed_ = false;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_
