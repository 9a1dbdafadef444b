// SPDX-License-Identifier: Apache-2.0
// Functions that the parts of the allocator share.
#ifndef TIDEPOOL_BINDINGS_TORCH_INSIDE_H_
#define TIDEPOOL_BINDINGS_TORCH_INSIDE_H_

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "allocator.h"

namespace tidepool::torch_binding {

inline Allocator* the_allocator = nullptr;

inline void Check(tidepool_status status) {
  TORCH_CHECK(status == TIDEPOOL_OK, "tidepool: ", tidepool_last_error());
}

inline bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

// Likewise, but true also where CUDA does not say it, as at the end of the process.
inline bool MayCapture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) {
    return status != cudaStreamCaptureStatusNone;
  }
  static_cast<void>(cudaGetLastError());
  return true;
}

inline bool IsAnyCapturing(const Allocation& allocation) {
  if (IsCapturing(allocation.stream)) return true;
  return allocation.details != nullptr &&
         std::any_of(allocation.details->uses.begin(), allocation.details->uses.end(), IsCapturing);
}

// Returns whether others made a stream: they may destroy it, and PyTorch never destroys its own.
// c10 gives the default stream the number 0 and its other streams odd ones.
inline bool MayEnd(const c10::cuda::CUDAStream& stream) {
  return stream.id() != 0 && stream.id() % 2 == 0;
}

// Lets this thread query events and allocate while a stream of any thread is captured: the pool
// does neither on that stream.
class AllowInCapture {
 public:
  explicit AllowInCapture(bool is_needed) {
    if (is_needed) guard_.emplace(cudaStreamCaptureModeRelaxed);
  }

 private:
  std::optional<c10::cuda::CUDAStreamCaptureModeGuard> guard_;
};

inline void Delete(void* address) { the_allocator->raw_delete(address); }

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_INSIDE_H_
