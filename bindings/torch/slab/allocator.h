// SPDX-License-Identifier: Apache-2.0
// An allocator around PyTorch's current one. It serves the requests of planned passes from a slab,
// and notes requests for plans. All else goes on to the allocator that it found, so it may be
// installed at any time. It derives from PyTorch's class, so it is compiled for the installed
// version.
#ifndef TIDEPOOL_BINDINGS_TORCH_SLAB_ALLOCATOR_H_
#define TIDEPOOL_BINDINGS_TORCH_SLAB_ALLOCATOR_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "slab.h"

#define TIDEPOOL_TORCH_FROM(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))
#if !TIDEPOOL_TORCH_FROM(7)
#define TIDEPOOL_TORCH_2_6
#endif

namespace tidepool::torch_slab {

using c10::DeviceIndex;
#ifdef TIDEPOOL_TORCH_2_6
using c10::cuda::MempoolId_t;
#else
using c10::MempoolId_t;
#endif
using namespace c10::cuda::CUDACachingAllocator;  // NOLINT(google-build-using-namespace)
using c10::CachingDeviceAllocator::DeviceStats;

// A request, or the free of one.
struct Noted {
  std::int64_t bytes = 0;    // rounded; 0 for a free
  std::int64_t request = 0;  // its number
  const void* address = nullptr;
};

// Thread-safe, as PyTorch's allocators are.
class SlabAllocator final : public CUDAAllocator {
 public:
  explicit SlabAllocator(CUDAAllocator& inner) : inner_(inner) { the_allocator = this; }

  // Makes the slab of a device `bytes` large; 0 gives its memory back. Returns false, and changes
  // nothing, while a request lives in it.
  bool Resize(DeviceIndex device, std::int64_t bytes);
  // Serves the requests of the calling thread on the device by a plan, until End.
  void Begin(DeviceIndex device, const PlannedPass& pass);
  void End();
  SlabFigures FiguresOf(DeviceIndex device);
  // Notes the requests of the calling thread, and their frees, until EndNotes.
  void BeginNotes();
  std::vector<Noted> EndNotes();

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* address) override;
  void recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) override;
  void* getBaseAllocation(void* address, std::size_t* bytes) override;
  ShareableHandle shareIpcHandle(void* address) override;

  // The inner allocator does the rest.
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_.copy_data(to, from, bytes);
  }
  bool initialized() override { return inner_.initialized(); }
  DeviceStats getDeviceStats(DeviceIndex device) override { return inner_.getDeviceStats(device); }
  void resetAccumulatedStats(DeviceIndex device) override { inner_.resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { inner_.resetPeakStats(device); }
  void init(int device_count) override { inner_.init(device_count); }
  double getMemoryFraction(DeviceIndex device) override { return inner_.getMemoryFraction(device); }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    inner_.setMemoryFraction(fraction, device);
  }
  void enable(bool value) override { inner_.enable(value); }
  bool isEnabled() const override { return inner_.isEnabled(); }
  void cacheInfo(DeviceIndex device, std::size_t* largest) override {
    inner_.cacheInfo(device, largest);
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override {
    inner_.beginAllocateToPool(device, id, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override {
    inner_.endAllocateToPool(device, id);
  }
  void releasePool(DeviceIndex device, MempoolId_t id) override { inner_.releasePool(device, id); }
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override {
    return inner_.getPoolUseCount(device, id);
  }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    return inner_.checkPoolLiveAllocations(device, id, expected);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return inner_.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return inner_.isHistoryEnabled(); }
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>>& annotation) override {
    inner_.recordAnnotation(annotation);
  }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    inner_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    inner_.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    inner_.enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool p2p_enabled) override {
    return inner_.memcpyAsync(to, to_device, from, from_device, bytes, stream, p2p_enabled);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    return inner_.getCheckpointState(device, id);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                         std::shared_ptr<AllocatorState> state) override {
    return inner_.setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return inner_.name(); }
#ifdef TIDEPOOL_TORCH_2_6
  void emptyCache() override { inner_.emptyCache(); }
  SnapshotInfo snapshot() override { return inner_.snapshot(); }
  void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t id) override {
    inner_.ensureExistsAndIncrefPool(device, id);
  }
  void recordHistory(bool enabled, CreateContextFn make_context, std::size_t most,
                     RecordContext when) override {
    inner_.recordHistory(enabled, make_context, most, when);
  }
#else
  void emptyCache(MempoolId_t id) override { inner_.emptyCache(id); }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return inner_.getExpandableSegmentSizes(device);
  }
  SnapshotInfo snapshot(MempoolId_t id, bool include_traces) override {
    return inner_.snapshot(id, include_traces);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    inner_.createOrIncrefPool(device, id, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool is_used) override {
    inner_.setUseOnOOM(device, id, is_used);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t id) override { inner_.setNoSplit(device, id); }
  void recordHistory(bool enabled, CreateContextFn make_context, std::size_t most,
                     RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    inner_.recordHistory(enabled, make_context, most, when, clear, skipped);
  }
  void pushCompileContext(std::string& context) override { inner_.pushCompileContext(context); }
  void popCompileContext() override { inner_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { inner_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return inner_.getUserMetadata(); }
#endif
#if TIDEPOOL_TORCH_FROM(12)
  void attachOomRejectionObserver(OomRejectionObserver observer) override {
    inner_.attachOomRejectionObserver(std::move(observer));
  }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override {
    return inner_.getContextForPointer(address);
  }
#endif
#if TIDEPOOL_TORCH_FROM(13)
  void markCaptureBegin(DeviceIndex device) override { inner_.markCaptureBegin(device); }
  void markCaptureEnd(DeviceIndex device) override { inner_.markCaptureEnd(device); }
#endif
#if TIDEPOOL_TORCH_FROM(14)
  bool supportsUserMetadata() override { return inner_.supportsUserMetadata(); }
  void annotateMemory(const void* address, const std::string& metadata) override {
    inner_.annotateMemory(address, metadata);
  }
#endif

 private:
  using Lock = std::lock_guard<std::mutex>;

  static SlabAllocator* the_allocator;
  static void Delete(void* address) { the_allocator->raw_delete(address); }

  // Returns memory of a slab, or memory that is noted; null for a request that is the inner
  // allocator's.
  void* Take(std::size_t bytes, cudaStream_t stream);
  void* TakeNoted(std::size_t bytes, cudaStream_t stream);
  Slab* SlabOf(const void* address);
  void EmptyInnerCache() {
#ifdef TIDEPOOL_TORCH_2_6
    inner_.emptyCache();
#else
    inner_.emptyCache({0, 0});
#endif
  }

  CUDAAllocator& inner_;
  std::mutex mutex_;  // of all below. No call of the inner allocator is made under it
  std::map<DeviceIndex, Slab> slabs_;
  std::vector<Noted> notes_;
  std::unordered_map<const void*, std::int64_t> noted_;  // live requests, by address
};

}  // namespace tidepool::torch_slab

#endif  // TIDEPOOL_BINDINGS_TORCH_SLAB_ALLOCATOR_H_
