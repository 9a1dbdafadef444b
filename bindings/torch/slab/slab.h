// SPDX-License-Identifier: Apache-2.0
// A slab: one piece of a device's memory, in which the requests of a planned step have planned
// offsets.
#ifndef TIDEPOOL_BINDINGS_TORCH_SLAB_SLAB_H_
#define TIDEPOOL_BINDINGS_TORCH_SLAB_SLAB_H_

#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tidepool::torch_slab {

// Bytes to which sizes are rounded up, as PyTorch's own allocator does.
inline std::int64_t Rounded(std::size_t bytes) {
  constexpr std::size_t kUnit = 512;
  return static_cast<std::int64_t>(std::max(kUnit, (bytes + kUnit - 1) / kUnit * kUnit));
}

struct SlabFigures {
  std::int64_t bytes = 0;
  std::int64_t live_bytes = 0;
  std::int64_t served = 0;      // requests that got their planned offset
  std::int64_t deviations = 0;  // requests that did not, and planned requests that did not come
};

// The requests of a pass in their order, each with an offset. Belongs to the caller.
struct PlannedPass {
  std::int64_t count = 0;
  const std::int64_t* bytes = nullptr;  // rounded
  const std::int64_t* offsets = nullptr;
};

// Not thread-safe.
class Slab {
 public:
  // Nothing lives in the slab. `stream` is that of the request for its memory.
  void SetMemory(char* base, std::int64_t bytes, cudaStream_t stream) {
    base_ = base;
    figures_.bytes = bytes;
    stream_ = stream;
  }

  char* base() const { return base_; }
  cudaStream_t stream() const { return stream_; }
  const SlabFigures& figures() const { return figures_; }
  bool Contains(const void* address) const {
    return base_ != nullptr && base_ <= address && address < base_ + figures_.bytes;
  }

  // Begins a pass on a stream. Memory of another stream is handed over on the device, but not into
  // a capture: the work before it has ended.
  void Begin(const PlannedPass& pass, cudaStream_t stream) {
    if (stream_ != stream && IsCaptured(stream_) == IsCaptured(stream)) Await(stream, stream_);
    stream_ = stream;
    pass_ = pass;
    next_ = 0;
    unmatched_ = 0;
  }
  void End() {
    figures_.deviations += pass_.count - next_;
    pass_ = {};
    next_ = 0;
  }

  // Returns the planned place of the next request; null if it has none, or if it is taken.
  void* Take(std::int64_t bytes, cudaStream_t stream) {
    const std::int64_t at = stream == stream_ ? Find(bytes) : pass_.count;
    unmatched_ = at == pass_.count ? bytes : 0;
    if (at == pass_.count) {
      ++figures_.deviations;
      return nullptr;
    }
    figures_.deviations += at - next_;
    next_ = at + 1;
    const std::int64_t offset = pass_.offsets[at];
    if (offset < 0) return nullptr;
    if (!IsFree(offset, bytes)) {
      ++figures_.deviations;
      return nullptr;
    }
    ++figures_.served;
    figures_.live_bytes += bytes;
    live_[offset] = {bytes, {}};
    return base_ + offset;
  }

  void AddUse(const void* address, cudaStream_t stream) {
    const auto found = live_.find(static_cast<const char*>(address) - base_);
    if (found != live_.end() && stream != stream_) found->second.uses.push_back(stream);
  }

  // Frees the memory of a request. Work of other streams that was noted comes first, on the device.
  void Free(const void* address) {
    const auto found = live_.find(static_cast<const char*>(address) - base_);
    if (found == live_.end()) return;
    for (cudaStream_t use : found->second.uses) Await(stream_, use);
    figures_.live_bytes -= found->second.bytes;
    live_.erase(found);
  }

 private:
  // The planned requests after the next one among which it looks for a request.
  static constexpr std::int64_t kLookAhead = 64;

  struct Live {
    std::int64_t bytes = 0;
    std::vector<cudaStream_t> uses;
  };

  // Returns the position of a request in the pass, or its end for one that was not planned, such as
  // the workspace that a library keeps. One that differs from the next planned request counts as
  // such. Where the request after it differs too, the two are looked for side by side.
  std::int64_t Find(std::int64_t bytes) const {
    if (next_ < pass_.count && pass_.bytes[next_] == bytes) return next_;
    const std::int64_t end = std::min(next_ + kLookAhead, pass_.count);
    for (std::int64_t at = next_ + 1; unmatched_ != 0 && at < end; ++at) {
      if (pass_.bytes[at - 1] == unmatched_ && pass_.bytes[at] == bytes) return at;
    }
    return pass_.count;
  }

  bool IsFree(std::int64_t begin, std::int64_t bytes) const {
    if (begin + bytes > figures_.bytes) return false;
    const auto after = live_.lower_bound(begin + bytes);
    if (after == live_.begin()) return true;
    const auto& [offset, last] = *std::prev(after);
    return offset + last.bytes <= begin;
  }

  static bool IsCaptured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    // Fails for the legacy stream while another one is captured.
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) cudaGetLastError();
    return status != cudaStreamCaptureStatusNone;
  }

  static void Await(cudaStream_t stream, cudaStream_t awaited) {
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(event, awaited));
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
    C10_CUDA_CHECK(cudaEventDestroy(event));
  }

  char* base_ = nullptr;
  SlabFigures figures_;
  cudaStream_t stream_ = nullptr;
  PlannedPass pass_;
  std::int64_t next_ = 0;              // request of the pass
  std::int64_t unmatched_ = 0;         // bytes of the last request, if it was not planned
  std::map<std::int64_t, Live> live_;  // by offset
};

}  // namespace tidepool::torch_slab

#endif  // TIDEPOOL_BINDINGS_TORCH_SLAB_SLAB_H_
