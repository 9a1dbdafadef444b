// SPDX-License-Identifier: Apache-2.0
// The memory of a device as seen from one of its streams, and its text.
#ifndef TIDEPOOL_BINDINGS_CNMEM_MEMORY_STATE_H_
#define TIDEPOOL_BINDINGS_CNMEM_MEMORY_STATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::cnmem {

struct MemoryBlock {
  const void* address = nullptr;
  std::int64_t bytes = 0;
  bool is_used = false;
  cudaStream_t stream = nullptr;  // the owner of a used block
  bool is_reserved = false;       // for the stream
};

struct MemoryState {
  int device = 0;
  cudaStream_t stream = nullptr;
  // CNMeM's figures: of the stream, or of the device for the default stream.
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
  // The figures of the device, the same for every stream.
  std::int64_t device_free_bytes = 0;
  std::int64_t device_total_bytes = 0;
  std::vector<MemoryBlock> blocks;  // of the device
};

std::string ToText(const MemoryState& state);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_MEMORY_STATE_H_
