// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator of device memory on tidepool's pools. It derives from PyTorch's class, so
// it is compiled for the installed version. It reaches the pools through tidepool/c_api.h.
#ifndef TIDEPOOL_BINDINGS_TORCH_ALLOCATOR_H_
#define TIDEPOOL_BINDINGS_TORCH_ALLOCATOR_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../support/private_pool.h"
#include "history.h"
#include "ledger.h"
#include "tidepool/c_api.h"

namespace tidepool::torch_binding {

using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;
using StreamFilter = std::function<bool(cudaStream_t)>;

// A pool with a name, for graphs and torch.cuda.MemPool.
struct NamedPool {
  MempoolId_t id;
  PrivatePool pool;
  int uses = 1;
  bool is_used_when_memory_runs_out = false;
  std::shared_ptr<CUDAAllocator> segments;  // null: segments come from the device's pool
};

// A request for the memory of a named pool, of all streams that the filter names.
struct Route {
  MempoolId_t id;
  StreamFilter filter;
  bool is_capture = false;
};

// Memory that was freed while a capture forbade to free it, or while other streams used memory of a
// named pool. A stream may be destroyed after the free, or after its capture.
struct HeldFree {
  void* address = nullptr;
  Allocation allocation;                 // its uses: streams with work that is not noted yet
  bool is_noted = false;                 // the work of its own stream, which is not named any more
  std::vector<cudaEvent_t> events = {};  // work of other streams, of memory of a named pool
};

// A region that a thread has begun.
struct RegionOfThread {
  std::string tag;
  int priority = 0;
};

struct DeviceState {
  tidepool_pool* pool = nullptr;
  cudaStream_t service = nullptr;  // the stream of the segments of named pools
  double fraction = 1;
  std::size_t limit = 0;  // on live bytes; 0: no limit but the pool's budget
  std::map<MempoolId_t, NamedPool> named;
  std::vector<Route> routes;
  int captures = 0;  // of the routes
  std::vector<HeldFree> held;
};

class Allocator final : public CUDAAllocator {
 public:
  // `options` are those of tidepool_pool_create, for each device that is used.
  explicit Allocator(std::string options) : options_(std::move(options)) {}

  tidepool_pool* PoolOf(DeviceIndex device);
  void LeaveToParent() { is_forked_ = true; }
  // Lets the requests of this thread go to the region of a tag, or with "" to none; regions nest.
  // Where they wait, they do with the priority.
  void BeginRegion(const char* tag, int priority);
  void EndRegion();
  // Reports without a pool: the options of a pool that was never made.
  bool HasPool(DeviceIndex device);

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  bool initialized() override { return is_initialized_; }
  void emptyCache(MempoolId_t id) override;
  void recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) override;
  DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;

  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* address) override;
  void init(int device_count) override;
  double getMemoryFraction(DeviceIndex device) override;
  void setMemoryFraction(double fraction, DeviceIndex device) override;
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override;
  void enable(bool value) override { is_enabled_ = value; }
  bool isEnabled() const override { return is_enabled_; }
  void cacheInfo(DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* address, std::size_t* bytes) override;
  SnapshotInfo snapshot(MempoolId_t id, bool include_traces) override;

  void beginAllocateToPool(DeviceIndex device, MempoolId_t id, StreamFilter filter) override;
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override;
  void releasePool(DeviceIndex device, MempoolId_t id) override;
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override;
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                          std::shared_ptr<CUDAAllocator> segments) override;
  void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool is_used) override;
  void setNoSplit(DeviceIndex device, MempoolId_t id) override;
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override;
  CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                         std::shared_ptr<AllocatorState> state) override;

  ShareableHandle shareIpcHandle(void* address) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  bool isHistoryEnabled() override { return history_.is_enabled(); }
  void recordHistory(bool enabled, CreateContextFn make_context, std::size_t most,
                     RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override;
  void setUserMetadata(const std::string& metadata) override { metadata_ = metadata; }
  std::string getUserMetadata() override { return metadata_; }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool p2p_enabled) override;
  std::string name() override { return "tidepool"; }

  // Newer versions of PyTorch call these; in older ones they override nothing. An `override` would
  // not compile there.
  // No request is refused before the pool was asked, so there is nothing to observe.
  void attachOomRejectionObserver(
      std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)> /*observer*/) {}
  bool supportsUserMetadata() { return true; }
  void annotateMemory(const void* address, const std::string& metadata);
  Context getContextForPointer(const void* address);

 private:
  using Lock = std::unique_lock<std::mutex>;

  DeviceState& StateOf(DeviceIndex device);
  DeviceIndex CurrentDevice() const;
  void* TakeOnCurrent(std::size_t bytes, DeviceIndex device);
  // `may_end`: the stream may be destroyed when no memory of it is live.
  void* Take(std::size_t bytes, DeviceIndex device, cudaStream_t stream, bool may_end);
  void* TakeFromPool(DeviceState& state, std::size_t bytes, DeviceIndex device, cudaStream_t stream,
                     const RegionOfThread* region = nullptr, std::string refusal = {});
  bool MakeRoom(DeviceState& state, DeviceIndex device);
  [[noreturn]] void ThrowOutOfMemory(DeviceState& state, std::size_t bytes, DeviceIndex device,
                                     const std::string& cause);
  bool IsBeyondLimit(const DeviceState& state, std::size_t bytes) const;
  NamedPool* RoutedPool(DeviceState& state, cudaStream_t stream);
  void* TakeFromNamed(DeviceState& state, NamedPool& named, std::size_t bytes, DeviceIndex device,
                      cudaStream_t stream);
  void* TakeFromSpare(DeviceState& state, std::size_t bytes, cudaStream_t stream,
                      NamedPool** owner);
  // Adds a live allocation, and tells the history its region; null for none.
  void Note(void* address, Allocation&& allocation, const RegionOfThread* region);
  void AddEntry(TraceEntry::Action action, const Allocation& allocation, const void* address,
                Context context, std::string metadata);
  void AddFree(const Allocation& allocation, const void* address);
  void FreeInNamed(DeviceState& state, void* address, Allocation& allocation);
  void FreeInPool(DeviceState& state, void* address, const Allocation& allocation,
                  cudaStream_t stream);
  void Hold(DeviceState& state, void* address, Allocation& allocation);
  static bool NoteUse(const DeviceState& state, HeldFree& held, cudaStream_t stream,
                      DeviceIndex device);
  static bool NoteStreams(const DeviceState& state, HeldFree& held);
  static cudaStream_t ServiceOf(DeviceState& state, DeviceIndex device);
  std::size_t FreeHeld(DeviceState& state);
  std::size_t GiveBackIdle(DeviceState& state, const MempoolId_t* only);
  // Returns the figures of a pool and of its regions that are awake.
  tidepool_statistics StatisticsOf(tidepool_pool* pool) const;
  void AddSegments(const DeviceState& state, DeviceIndex device, SnapshotInfo& info);
  void AddNamedSegments(const NamedPool& named, DeviceIndex device, SnapshotInfo& info);
  void AddBlock(char* address, std::size_t bytes, bool is_live,
                c10::CachingDeviceAllocator::SegmentInfo& segment);

  const std::string options_;
  std::atomic<bool> is_initialized_ = false;
  std::atomic<bool> is_forked_ = false;
  std::atomic<bool> is_enabled_ = true;
  std::atomic<int> routes_ = 0;  // with regions: most requests then need not look for one
  std::mutex mutex_;             // no call of a pool is made under it that may wait
  std::vector<std::unique_ptr<DeviceState>> devices_;
  Ledger ledger_;
  std::atomic<bool> is_watched_ = false;  // whether the history gets entries
  History history_;
  std::vector<OutOfMemoryObserver> observers_;
  std::string metadata_;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_ALLOCATOR_H_
