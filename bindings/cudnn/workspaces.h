// SPDX-License-Identifier: Apache-2.0
// Workspaces of a device, from a pool of its own.
#ifndef TIDEPOOL_BINDINGS_CUDNN_WORKSPACES_H_
#define TIDEPOOL_BINDINGS_CUDNN_WORKSPACES_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tidepool/cuda_device.h"
#include "tidepool/device.h"
#include "tidepool/pool.h"

namespace tidepool::cudnn {

// Memory is handed from stream to stream in the order of their work: a stream that gets memory of
// another one waits for it on the device. Thread-safe.
class Workspaces {
 public:
  // `total_bytes` are taken at once and never exceeded; 0: memory is taken as needed.
  static absl::StatusOr<std::unique_ptr<Workspaces>> Create(int ordinal, std::int64_t total_bytes);

  // Returns the name of a stream. A stream that was destroyed is told from a new one with its
  // handle as far as CUDA can (CudaDevice::WrapStream).
  absl::StatusOr<Stream> NameOf(cudaStream_t native) {
    return device_->WrapStream(native, StreamPromise::kNone);
  }
  absl::StatusOr<void*> Allocate(std::int64_t bytes, Stream stream) {
    return pool_->Allocate(static_cast<std::size_t>(bytes), stream);
  }
  // The stream is that of the current call.
  void Free(void* address, Stream stream) { pool_->Free(address, stream).IgnoreError(); }
  // Frees memory of an earlier call. Its stream may have been destroyed since.
  void FreeLate(void* address, Stream stream) {
    pool_->RecordUse(address, stream).IgnoreError();
    pool_->Free(address, legacy_).IgnoreError();
  }
  PoolStats Stats() const { return pool_->Stats(); }
  // Returns whether the device was reset: then this must never be destroyed.
  bool WasReset() const;

 private:
  Workspaces(std::unique_ptr<CudaDevice> device, Stream legacy, std::unique_ptr<Pool> pool)
      : device_(std::move(device)), legacy_(legacy), pool_(std::move(pool)) {}

  std::unique_ptr<CudaDevice> device_;
  const Stream legacy_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_WORKSPACES_H_
