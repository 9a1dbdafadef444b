// SPDX-License-Identifier: Apache-2.0
// The memory of one device: a pool for all of its streams, and the memory that single streams
// reserve.
#ifndef TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_
#define TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/cnmem/memory_state.h"
#include "bindings/cnmem/settings.h"
#include "bindings/cnmem/stream_manager.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/pointer_table.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"

namespace tidepool::cnmem {

// The cause of a pool's limit: the device's memory, the budget, or the size given to cnmemInit.
enum class Limit : std::uint8_t { kDevice, kBudget, kSize };

// The parameters of cnmemInit for one device.
struct DeviceRequest {
  struct StreamRequest {
    cudaStream_t native = nullptr;
    std::size_t reserved_bytes = 0;
  };

  int ordinal = 0;
  std::vector<std::size_t> sizes;  // they add up; 0 stands for half of the device
  std::vector<StreamRequest> streams;
  unsigned flags = 0;
};

// The memory of one device. Thread-safe. The device need not be current; every call leaves the
// current device unchanged.
class DeviceManager {
 public:
  // Makes a manager and takes the memory. InvalidArgument for a size that is not less than the
  // device's memory, ResourceExhausted if the device has less memory left.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> Create(const DeviceRequest& request,
                                                               const Settings& settings);
  ~DeviceManager();
  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // The functions below answer InvalidArgument for a stream that is not registered. The null stream
  // always is.

  absl::Status Register(cudaStream_t native);
  absl::StatusOr<void*> Allocate(std::size_t bytes, cudaStream_t native);
  absl::Status Free(void* address, cudaStream_t native);
  // Returns the blocks and figures of the device. O(blocks).
  absl::StatusOr<MemoryState> State(cudaStream_t native) const;

  // Waits for the device and gives all memory back, including live allocations. Called once, as the
  // last call, while no other call runs. An error if CUDA did not take all memory back.
  absl::Status Close();
  // Returns whether the device was reset after Create. Then CUDA has all memory back, and no handle
  // is valid any more. Call Report instead of Close then, and never destroy the manager.
  bool WasReset() const;
  // Writes the trace, and prints the statistics if they are enabled. For a process that ends
  // without Close: makes no call of CUDA.
  void Report() const;

 private:
  DeviceManager(const Settings& settings, std::unique_ptr<CudaDevice> device)
      : settings_(settings), device_(std::move(device)) {}

  absl::Status Start(const DeviceRequest& request);
  void StartRecorder();
  absl::Status StartPool(std::int64_t initial_bytes, std::int64_t max_bytes);
  // Makes an observer that tells an attached tool of a pool and then calls `next`; null without a
  // tool.
  std::unique_ptr<PoolObserver> MakeToolObserver(PoolObserver* next) const;
  PoolOptions InSegments(std::int64_t initial_bytes, std::int64_t max_bytes) const;
  PoolOptions Options(std::int64_t initial_bytes, std::int64_t max_bytes) const;
  std::int64_t BudgetOf(std::int64_t bytes) const;
  absl::StatusOr<StreamManager*> Add(cudaStream_t native);

  // Returns the manager of a stream, or null if it is not registered.
  StreamManager* Find(cudaStream_t native) const {
    return native == nullptr ? default_.get() : streams_.Find(native);
  }
  absl::StatusOr<Stream> NameOf(StreamManager& manager);
  absl::StatusOr<void*> TryAllocate(std::size_t bytes, StreamManager& manager);
  absl::StatusOr<void*> AllocateFromPool(std::size_t bytes, Stream stream);
  absl::Status WithHelp(const absl::Status& status, std::size_t bytes) const;
  Pool* PoolOf(const void* address, StreamManager& manager);
  absl::Status FreeForOther(Pool& pool, void* address, StreamManager& manager);
  static absl::Status FreeAll(Pool& pool, Stream stream);
  std::vector<StreamManager*> Managers() const;

  const Settings settings_;
  bool is_managed_ = false;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<PoolObserver> tool_observer_;
  std::unique_ptr<Pool> pool_;      // null: all memory is reserved and the pool may not grow
  std::int64_t initial_bytes_ = 0;  // as requested
  std::int64_t initially_held_bytes_ = 0;
  std::int64_t max_bytes_ = 0;
  Limit limit_ = Limit::kDevice;

  std::unique_ptr<StreamManager> default_;
  locks::PointerTable<StreamManager> streams_;  // read without a lock, changed under mutex_
  mutable locks::Mutex mutex_;
  std::vector<std::unique_ptr<StreamManager>> managers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Reserve*> reserves_;  // of managers; filled before other threads see this
  bool is_closed_ = false;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_DEVICE_MANAGER_H_
