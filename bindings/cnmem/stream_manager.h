// SPDX-License-Identifier: Apache-2.0
// A registered stream: its names in the pool, and its reserved memory.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
#define TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "bindings/cnmem/reserve.h"
#include "bindings/support/stream_names.h"
#include "tidepool/device.h"

namespace tidepool::cnmem {

// A program knows a stream by CUDA's handle. Memory of each of its names belongs to the handle.
// Thread-safe.
class StreamManager : public bindings::StreamNames {
 public:
  StreamManager(cudaStream_t native, Stream name) : StreamNames(name), native_(native) {}

  cudaStream_t native() const { return native_; }

  // Set before other threads see the manager.
  std::int64_t reserved_bytes = 0;
  // The reserved memory that no other stream may take; null: other streams may take it.
  std::unique_ptr<Reserve> reserve;

 private:
  const cudaStream_t native_;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
