// SPDX-License-Identifier: Apache-2.0
// Statistics, snapshots, limits, and memory of other devices.
#include "inside.h"

namespace tidepool::torch_binding {
namespace {

std::vector<tidepool_block> BlocksOf(tidepool_pool* pool) {
  std::vector<tidepool_block> blocks;
  std::size_t count = 64;
  do {
    blocks.resize(count + 64);
    Check(tidepool_get_blocks(pool, blocks.data(), blocks.size(), &count));
  } while (count > blocks.size());
  blocks.resize(count);
  return blocks;
}

std::vector<tidepool_region_statistics> RegionsOf(tidepool_pool* pool) {
  std::size_t count = 0;
  Check(tidepool_get_regions(pool, nullptr, 0, &count));
  tidepool_region_statistics empty = {};
  empty.struct_size = sizeof(empty);
  std::vector<tidepool_region_statistics> regions(count, empty);
  if (count > 0) Check(tidepool_get_regions(pool, regions.data(), regions.size(), &count));
  return regions;
}

bool IsEnd(const tidepool_block& block, const tidepool_block& next) {
  return static_cast<char*>(block.address) + block.bytes != next.address;
}

}  // namespace

tidepool_statistics Allocator::StatisticsOf(tidepool_pool* pool) const {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof(statistics);
  if (pool == nullptr) return statistics;
  Check(tidepool_get_statistics(pool, &statistics));
  for (const tidepool_region_statistics& region : RegionsOf(pool)) {
    if (region.is_asleep != 0) continue;
    statistics.live_bytes += region.live_bytes;
    statistics.reserved_bytes += region.reserved_bytes;
    statistics.free_bytes +=
        region.reserved_bytes - std::min(region.reserved_bytes, region.live_bytes);
  }
  statistics.peak_reserved_bytes =
      std::max(statistics.peak_budget_bytes, statistics.reserved_bytes);
  return statistics;
}

DeviceStats Allocator::getDeviceStats(DeviceIndex device) {
  const tidepool_statistics pool = StatisticsOf(StateOf(device).pool);
  return ledger_.WithCounts(device, [&](const Counts& counts) { return counts.With(pool); });
}

void Allocator::resetAccumulatedStats(DeviceIndex device) {
  StateOf(device);  // checks the device
  ledger_.WithCounts(device, [](Counts& counts) { counts.ResetAccumulated(); });
}

void Allocator::resetPeakStats(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  ledger_.WithCounts(device, [](Counts& counts) { counts.ResetPeaks(); });
  if (state.pool != nullptr) Check(tidepool_reset_peaks(state.pool));
}

double Allocator::getMemoryFraction(DeviceIndex device) { return StateOf(device).fraction; }

// The pool's budget cannot change, so the limit counts live bytes.
void Allocator::setMemoryFraction(double fraction, DeviceIndex device) {
  TORCH_CHECK(fraction >= 0 && fraction <= 1, "tidepool: memory fraction ", fraction,
              ", expected 0 to 1");
  DeviceState& state = StateOf(device);
  const std::size_t total = getMemoryInfo(device).second;
  PoolOf(device);
  const Lock lock(mutex_);
  state.fraction = fraction;
  state.limit = fraction < 1
                    ? std::max<std::size_t>(
                          1, static_cast<std::size_t>(fraction * static_cast<double>(total)))
                    : 0;
}

std::vector<StreamSegmentSize> Allocator::getExpandableSegmentSizes(DeviceIndex /*device*/) {
  return {};
}

void Allocator::cacheInfo(DeviceIndex device, std::size_t* largest) {
  const tidepool_statistics statistics = StatisticsOf(PoolOf(device));
  const std::size_t budget =
      statistics.max_bytes - std::min(statistics.max_bytes, statistics.reserved_bytes);
  *largest = std::max(statistics.largest_hole_bytes, std::min(getMemoryInfo(device).first, budget));
}

void* Allocator::getBaseAllocation(void* address, std::size_t* bytes) {
  DeviceIndex device = 0;
  const bool is_ours =
      ledger_.With(address, [&](const Allocation& allocation) { device = allocation.device; });
  TORCH_CHECK(is_ours, "tidepool: no allocation at ", address);
  const std::vector<tidepool_block> blocks = BlocksOf(PoolOf(device));
  std::size_t first = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const bool is_last = i + 1 == blocks.size() || IsEnd(blocks[i], blocks[i + 1]);
    if (!is_last) continue;
    auto* const begin = static_cast<char*>(blocks[first].address);
    char* const end = static_cast<char*>(blocks[i].address) + blocks[i].bytes;
    if (begin <= address && address < end) {
      if (bytes != nullptr) *bytes = static_cast<std::size_t>(end - begin);
      return begin;
    }
    first = i + 1;
  }
  return address;
}

void Allocator::AddBlock(char* address, std::size_t bytes, bool is_live,
                         c10::CachingDeviceAllocator::SegmentInfo& segment) {
  c10::CachingDeviceAllocator::BlockInfo block;
  block.size = bytes;
  block.allocated = block.active = is_live;
  if (is_live) {
    ledger_.With(address, [&](const Allocation& allocation) {
      block.requested_size = allocation.requested;
      if (allocation.details != nullptr) block.context_when_allocated = allocation.details->context;
    });
  }
  segment.total_size += bytes;
  segment.requested_size += block.requested_size;
  if (is_live) {
    segment.allocated_size += bytes;
    segment.active_size += bytes;
  }
  segment.blocks.push_back(std::move(block));
}

// Segments of named pools are live blocks of the device's pool, and not listed twice.
void Allocator::AddSegments(const DeviceState& state, DeviceIndex device, SnapshotInfo& info) {
  std::unordered_set<const void*> named;
  for (const auto& [id, pool] : state.named) {
    for (const auto& [address, segment] : pool.pool.state().segments) named.insert(address);
  }
  bool is_new = true;
  const std::vector<tidepool_block> blocks = BlocksOf(state.pool);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const tidepool_block& block = blocks[i];
    is_new |= i > 0 && IsEnd(blocks[i - 1], block);
    if (block.is_live != 0 && named.count(block.address) != 0) {
      is_new = true;
      continue;
    }
    if (is_new) {
      info.segments.emplace_back();
      info.segments.back().device = device;
      info.segments.back().address = reinterpret_cast<std::size_t>(block.address);
      info.segments.back().is_large = true;
      info.segments.back().is_expandable = true;
      is_new = false;
    }
    AddBlock(static_cast<char*>(block.address), block.bytes, block.is_live != 0,
             info.segments.back());
  }
}

void Allocator::AddNamedSegments(const NamedPool& named, DeviceIndex device, SnapshotInfo& info) {
  for (const auto& [address, segment] : named.pool.state().segments) {
    info.segments.emplace_back();
    info.segments.back().device = device;
    info.segments.back().address = reinterpret_cast<std::size_t>(address);
    info.segments.back().stream = segment.stream;
    info.segments.back().is_large = segment.bytes > (2U << 20);
    info.segments.back().owner_private_pool_id = named.id;
    auto block = named.pool.state().blocks.find(address);
    for (std::size_t bytes = 0; bytes < segment.bytes; ++block) {
      AddBlock(block->first, block->second.bytes, block->second.is_live, info.segments.back());
      bytes += block->second.bytes;
    }
  }
}

SnapshotInfo Allocator::snapshot(MempoolId_t id, bool include_traces) {
  SnapshotInfo info;
  const bool is_whole = id == MempoolId_t{0, 0};
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const DeviceState& state = *devices_[i];
    const auto device = static_cast<DeviceIndex>(i);
    if (state.pool != nullptr && is_whole) AddSegments(state, device, info);
    for (const auto& [name, named] : state.named) {
      if (is_whole || name == id) AddNamedSegments(named, device, info);
    }
  }
  for (std::size_t i = 0; include_traces && i < devices_.size(); ++i) {
    info.device_traces.push_back(history_.EntriesOf(static_cast<DeviceIndex>(i)));
  }
  info.config_metadata = {};
  info.config_metadata.expandable_segments = true;
  return info;
}

void Allocator::recordHistory(bool enabled, CreateContextFn make_context, std::size_t most,
                              RecordContext when, bool clear,
                              const std::vector<std::string>& skipped) {
  const Lock lock(mutex_);
  history_.Configure(enabled, make_context, most, when, clear, skipped);
  is_watched_ = history_.is_watched();
}

void Allocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  const Lock lock(mutex_);
  observers_.push_back(std::move(observer));
}

// Adds an entry to the history if the address is that of a live allocation.
void Allocator::annotateMemory([[maybe_unused]] const void* address,
                               [[maybe_unused]] const std::string& metadata) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
  if (!is_watched_) return;
  DeviceIndex device = 0;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
  const bool is_ours = ledger_.With(address, [&](const Allocation& allocation) {
    device = allocation.device;
    bytes = allocation.bytes();
    stream = allocation.stream;
  });
  if (!is_ours) return;
  const Lock lock(mutex_);
  history_.Add(TraceEntry(TraceEntry::ANNOTATE, device, reinterpret_cast<std::size_t>(address),
                          bytes, stream, {0, 0}, c10::getApproximateTime(), nullptr, "", metadata),
               nullptr);
#endif
}

Context Allocator::getContextForPointer(const void* address) {
  Context context;
  ledger_.With(address, [&](const Allocation& allocation) {
    if (allocation.details != nullptr) context = allocation.details->context;
  });
  return context;
}

void Allocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  const Lock lock(mutex_);
  history_.AddTracker(std::move(tracker));
  is_watched_ = true;
}

void Allocator::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    C10_CUDA_CHECK(error);
  }
}

cudaError_t Allocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                   std::size_t bytes, cudaStream_t stream, bool /*p2p_enabled*/) {
  return to_device == from_device
             ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream)
             : cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

ShareableHandle Allocator::shareIpcHandle(void* /*address*/) {
  TORCH_CHECK(false,
              "tidepool: memory of a pool cannot be sent to another process: send tensor.cpu() "
              "instead, or leave out tidepool.torch.enable() in processes that send tensors of the "
              "device; no option of it allows them");
}

// PyTorch's own allocator writes a version and a kind before the handle; versions before 2.5 wrote
// the handle alone.
std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle) {
  cudaIpcMemHandle_t shared;
  constexpr std::size_t kPrefix = 2;
  constexpr char kOfCudaMalloc = 'c';
  const std::size_t prefix = handle.size() == sizeof(shared) ? 0 : kPrefix;
  TORCH_CHECK(prefix == 0 || (handle.size() >= kPrefix && handle[1] == kOfCudaMalloc),
              "tidepool: the handle is one of expandable segments, expected one of cudaMalloc: the "
              "process that sends it must not set expandable_segments");
  TORCH_CHECK(handle.size() == prefix + sizeof(shared), "tidepool: the handle has ", handle.size(),
              " bytes, expected ", kPrefix + sizeof(shared));
  std::memcpy(&shared, handle.data() + prefix, sizeof(shared));
  void* address = nullptr;
  C10_CUDA_CHECK(cudaIpcOpenMemHandle(&address, shared, cudaIpcMemLazyEnablePeerAccess));
  return {address, [](void* opened) { static_cast<void>(cudaIpcCloseMemHandle(opened)); }};
}

}  // namespace tidepool::torch_binding
