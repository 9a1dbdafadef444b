// SPDX-License-Identifier: Apache-2.0
// Operations on memory that several groups of the runtime's functions share.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_OPERATIONS_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_OPERATIONS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "dryrun/runtime/cudart/runtime.h"

namespace tidepool::cudart_host {

// Allocates memory on the current device.
cudaError_t Allocate(Runtime& runtime, void** address, std::size_t bytes, MemoryKind kind,
                     unsigned flags);

// Returns an attribute of a device. Both interfaces use the same numbers.
int AttributeOf(Runtime& runtime, int number);

// Rows of bytes. A plain copy is a single row.
struct CopyShape {
  char* to;
  std::size_t to_pitch;
  const char* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;
  bool has_devices = false;  // the call names both devices, as cudaMemcpyPeer does
};

// Queues a copy. On return, pageable sources have been read and pageable destinations have been
// written.
cudaError_t QueueCopy(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                      cudaMemcpyKind kind);
cudaError_t QueueFill(Runtime& runtime, const StreamRef& stream, void* to, std::size_t pitch,
                      int value, std::size_t width, std::size_t height);
// Queues a copy and waits for it.
cudaError_t CopyNow(const char* function, cudaStream_t handle, const CopyShape& shape,
                    cudaMemcpyKind kind);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_OPERATIONS_H_
