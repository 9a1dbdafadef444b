// What several faces of the stand-in do with memory.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_OPERATIONS_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_OPERATIONS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/support/cudart_host/runtime.h"

namespace tidepool::cudart_host {

// On the current device.
cudaError_t Allocate(Runtime& runtime, void** address, std::size_t bytes, MemoryKind kind,
                     unsigned flags);

// The value of an attribute of a device, by its number in both interfaces.
int AttributeOf(Runtime& runtime, int number);

// Rows of bytes. A row alone is all of a plain copy.
struct CopyShape {
  char* to;
  std::size_t to_pitch;
  const char* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;
};

// Queues a copy. When it returns, pageable memory that is read has been read, and pageable memory
// that is written has been written.
cudaError_t QueueCopy(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                      cudaMemcpyKind kind);
cudaError_t QueueFill(Runtime& runtime, const StreamRef& stream, void* to, std::size_t pitch,
                      int value, std::size_t width, std::size_t height);
// And waits for it.
cudaError_t CopyNow(const char* function, cudaStream_t handle, const CopyShape& shape,
                    cudaMemcpyKind kind);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_OPERATIONS_H_
