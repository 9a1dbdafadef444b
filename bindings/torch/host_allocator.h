// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator of page-locked memory, on tidepool's. Sizes are exact: PyTorch's own rounds
// them up to powers of two.
#ifndef TIDEPOOL_BINDINGS_TORCH_HOST_ALLOCATOR_H_
#define TIDEPOOL_BINDINGS_TORCH_HOST_ALLOCATOR_H_

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "history.h"
#include "tidepool/c_api.h"

namespace tidepool::torch_binding {

// Thread-safe. Memory that a copy may still use is kept until the copy's stream has passed an
// event. Memory that a captured copy uses is kept until its graph's pool is released.
class PinnedAllocator final : public at::HostAllocator {
 public:
  using PoolOf = std::function<tidepool_pool*(c10::DeviceIndex)>;

  // `pool_of` returns the pool of a device. `free` frees memory by calling Free: PyTorch frees
  // through a plain function.
  PinnedAllocator(PoolOf pool_of, c10::DeleterFnPtr free)
      : pool_of_(std::move(pool_of)), free_(free) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, free_, at::DeviceType::CPU};
    const c10::DeviceIndex device = c10::cuda::current_device();
    Buffer buffer;
    buffer.pool = pool_of_(device);
    buffer.bytes = bytes;
    if (is_watched_) buffer.context = history_.MakeContext(RecordContext::STATE);
    const std::lock_guard lock(mutex_);
    FreePassed();
    for (const auto& [id, filter] : routes_) {
      if (filter(c10::cuda::getCurrentCUDAStream(device))) buffer.graph = id;
    }
    const AllowPinning allow(cudaStreamCaptureModeRelaxed);
    void* address = nullptr;
    const tidepool_status status = tidepool_pinned_allocate(buffer.pool, bytes, &address);
    TORCH_CHECK(status == TIDEPOOL_OK, "tidepool: ", tidepool_last_error());
    stats_.active_requests.increase(1);
    stats_.active_bytes.increase(bytes);
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(bytes);
    AddEntry(TraceEntry::ALLOC, address, buffer);
    buffers_.emplace(static_cast<char*>(address), std::move(buffer));
    return {address, address, free_, at::DeviceType::CPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return free_; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  // Frees memory of `allocate`. A destructor calls it: errors are warnings.
  void Free(void* address) {
    if (address == nullptr || is_forked_) return;
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(static_cast<char*>(address));
    if (found == buffers_.end()) return;
    Buffer buffer = std::move(found->second);
    buffers_.erase(found);
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(buffer.bytes);
    AddEntry(TraceEntry::FREE_REQUESTED, address, buffer);
    if (buffer.graph != kNoGraph) {
      kept_[buffer.graph].push_back({address, std::move(buffer)});
      return;
    }
    for (const c10::cuda::CUDAStream& stream : buffer.streams) FollowStream(stream, buffer);
    waiting_.emplace_back(address, std::move(buffer));
    FreePassed();
  }

  bool record_event(void* address, void* context, c10::Stream stream) override {
    const std::lock_guard lock(mutex_);
    Buffer* const buffer = Find(static_cast<char*>(context), static_cast<char*>(address));
    if (buffer == nullptr) return false;
    const c10::cuda::CUDAStream cuda_stream(stream);
    for (const auto& [id, filter] : routes_) {
      if (filter(cuda_stream)) buffer->graph = id;
    }
    if (buffer->graph == kNoGraph) buffer->streams.push_back(cuda_stream);
    return true;
  }

  void empty_cache() override {
    const std::lock_guard lock(mutex_);
    FreePassed();
    const AllowPinning allow(cudaStreamCaptureModeRelaxed);
    for (tidepool_pool* pool : pools_) tidepool_pinned_trim(pool, nullptr);
  }

  at::HostStats get_stats() override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(mutex_);
    ForEachStat([](auto& stat) { stat.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(mutex_);
    ForEachStat([](auto& stat) { stat.reset_peak(); });
  }

  void begin_allocate_to_pool(c10::MempoolId_t id,
                              std::function<bool(c10::Stream)> filter) override {
    const std::lock_guard lock(mutex_);
    routes_.emplace_back(id, std::move(filter));
  }
  void end_allocate_to_pool(c10::MempoolId_t id) override {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(routes_.begin(), routes_.end(),
                                    [&](const auto& route) { return route.first == id; });
    if (found != routes_.end()) routes_.erase(found);
    GiveBackReleased();
  }
  void release_pool(c10::MempoolId_t id) override {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.find(id);
    if (kept == kept_.end()) return;
    std::move(kept->second.begin(), kept->second.end(), std::back_inserter(released_));
    kept_.erase(kept);
    GiveBackReleased();
  }

  void LeaveToParent() { is_forked_ = true; }

  // Newer versions of PyTorch call these for `record_pinned_host_memory`; in older ones they
  // override nothing.
  void record_history(bool enabled, CreateContextFn make_context, std::size_t most,
                      RecordContext when, bool clear) {
    const std::lock_guard lock(mutex_);
    history_.Configure(enabled, make_context, most, when, clear, {});
    is_watched_ = enabled;
  }
  bool is_history_enabled() const { return is_watched_; }
  std::vector<TraceEntry> get_traces() {
    const std::lock_guard lock(mutex_);
    return history_.EntriesOf(kHost);
  }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  // Each buffer is a segment. Memory that no tensor has and no copy uses is not listed.
  std::vector<c10::CachingDeviceAllocator::HostSegmentInfo> get_segments() {
    const std::lock_guard lock(mutex_);
    std::vector<c10::CachingDeviceAllocator::HostSegmentInfo> segments;
    const auto add = [&](const void* address, const Buffer& buffer, bool is_live) {
      segments.push_back({reinterpret_cast<std::size_t>(address), buffer.bytes, is_live, true,
                          buffer.graph, buffer.context});
    };
    for (const auto& [address, buffer] : buffers_) add(address, buffer, true);
    for (const auto& [address, buffer] : waiting_) add(address, buffer, false);
    for (const auto& [address, buffer] : released_) add(address, buffer, false);
    for (const auto& [id, kept] : kept_) {
      for (const auto& [address, buffer] : kept) add(address, buffer, false);
    }
    return segments;
  }
#endif

 private:
  struct Buffer {
    tidepool_pool* pool = nullptr;
    std::size_t bytes = 0;
    c10::MempoolId_t graph = kNoGraph;
    std::vector<c10::cuda::CUDAStream> streams;  // with copies of this memory
    std::vector<cudaEvent_t> events;             // recorded at the free
    Context context;                             // of the request, while there is a history
  };
  // Page-locking ends the captures of other threads that do not allow it.
  using AllowPinning = c10::cuda::CUDAStreamCaptureModeGuard;
  static constexpr c10::MempoolId_t kNoGraph = {0, 0};
  static constexpr c10::DeviceIndex kHost = -1;

  void AddEntry(TraceEntry::Action action, const void* address, const Buffer& buffer) {
    if (!is_watched_) return;
    history_.Add(TraceEntry(action, kHost, reinterpret_cast<std::size_t>(address), buffer.bytes,
                            nullptr, buffer.graph, c10::getApproximateTime()),
                 buffer.context);
  }

  // Finds the buffer that begins at `context`, or else the one that contains `address`.
  Buffer* Find(char* context, char* address) {
    const auto exact = buffers_.find(context);
    if (exact != buffers_.end()) return &exact->second;
    const auto above = buffers_.upper_bound(address);
    if (above == buffers_.begin()) return nullptr;
    const auto below = std::prev(above);
    return address < below->first + below->second.bytes ? &below->second : nullptr;
  }

  // Lets a buffer wait for the work of a stream, or waits for it here where CUDA makes no event.
  static void FollowStream(const c10::cuda::CUDAStream& stream, Buffer& buffer) {
    try {
      const c10::cuda::CUDAGuard guard(stream.device_index());
      cudaEvent_t event = nullptr;
      if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) {
        buffer.events.push_back(event);
        if (cudaEventRecord(event, stream) == cudaSuccess) return;
      }
      static_cast<void>(cudaStreamSynchronize(stream));
      static_cast<void>(cudaGetLastError());
    } catch (const c10::Error&) {
      // The process ends, and CUDA has no devices any more.
    }
  }

  void GiveBack(void* address, const Buffer& buffer) {
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(buffer.bytes);
    pools_.insert(buffer.pool);
    AddEntry(TraceEntry::FREE_COMPLETED, address, buffer);
    if (tidepool_pinned_free(buffer.pool, address) != TIDEPOOL_OK) {
      TORCH_WARN("tidepool: pinned memory was not freed: ", tidepool_last_error());
    }
  }

  // A launch of a graph may still read the memory, so the device finishes before. A capture does
  // not survive that wait.
  void GiveBackReleased() {
    if (!routes_.empty() || released_.empty()) return;
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    for (const auto& [address, buffer] : released_) GiveBack(address, buffer);
    released_.clear();
  }

  // Frees the memory that streams have finished with. A capture forbids the queries.
  void FreePassed() {
    if (!routes_.empty()) return;
    const auto has_passed = [](cudaEvent_t event) { return cudaEventQuery(event) == cudaSuccess; };
    std::erase_if(waiting_, [&](const std::pair<void*, Buffer>& each) {
      const std::vector<cudaEvent_t>& events = each.second.events;
      if (!std::all_of(events.begin(), events.end(), has_passed)) return false;
      for (cudaEvent_t event : events) static_cast<void>(cudaEventDestroy(event));
      GiveBack(each.first, each.second);
      return true;
    });
    static_cast<void>(cudaGetLastError());  // not ready is no error
  }

  template <typename Apply>
  void ForEachStat(Apply apply) {
    apply(stats_.active_requests);
    apply(stats_.active_bytes);
    apply(stats_.allocations);
    apply(stats_.allocated_bytes);
  }

  const PoolOf pool_of_;
  const c10::DeleterFnPtr free_;
  std::atomic<bool> is_forked_ = false;
  std::mutex mutex_;
  std::map<char*, Buffer> buffers_;
  std::vector<std::pair<void*, Buffer>> waiting_;
  std::vector<std::pair<c10::MempoolId_t, std::function<bool(c10::Stream)>>> routes_;
  std::map<c10::MempoolId_t, std::vector<std::pair<void*, Buffer>>> kept_;
  std::vector<std::pair<void*, Buffer>> released_;  // of graphs that are gone
  std::set<tidepool_pool*> pools_;
  at::HostStats stats_;
  std::atomic<bool> is_watched_ = false;  // whether the history gets entries
  History history_;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_HOST_ALLOCATOR_H_
