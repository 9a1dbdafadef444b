// SPDX-License-Identifier: Apache-2.0
// Pools with names: of graphs and of torch.cuda.MemPool, with checkpoints of their blocks.
#include "inside.h"

namespace tidepool::torch_binding {
namespace {

struct Checkpoint final : AllocatorState {
  struct Live {
    char* address;
    std::size_t requested;
    cudaStream_t stream;
  };
  MempoolId_t id;
  PrivatePool::State state;
  std::vector<Live> live;
};

}  // namespace

NamedPool* Allocator::RoutedPool(DeviceState& state, cudaStream_t stream) {
  const Lock lock(mutex_);
  for (const Route& route : state.routes) {
    if (route.filter(stream)) return &state.named.at(route.id);
  }
  return nullptr;
}

void* Allocator::TakeFromNamed(DeviceState& state, NamedPool& named, std::size_t bytes,
                               DeviceIndex device, cudaStream_t stream) {
  const AllowInCapture allow(true);
  std::size_t segment = 0;
  {
    const Lock lock(mutex_);
    FreeHeld(state);
    if (void* const address = named.pool.Take(bytes, stream)) return address;
    segment = named.pool.is_whole() ? bytes : PrivatePool::SegmentBytes(bytes);
  }
  void* address = nullptr;
  if (named.segments != nullptr) {
    address = named.segments->raw_alloc_with_stream(segment, stream);
    if (address == nullptr)
      ThrowOutOfMemory(state, bytes, device, "its MemPool's allocator has no memory");
  } else {
    address = TakeFromPool(state, segment, device, ServiceOf(state, device));
    // A capture must not wait for the streams that used the memory before.
    C10_CUDA_CHECK(cudaStreamSynchronize(state.service));
  }
  const Lock lock(mutex_);
  named.pool.AddSegment(address, segment, stream);
  return named.pool.Take(bytes, stream);
}

cudaStream_t Allocator::ServiceOf(DeviceState& state, DeviceIndex device) {
  if (state.service == nullptr) {
    const c10::cuda::CUDAGuard guard(device);
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&state.service, cudaStreamNonBlocking));
  }
  return state.service;
}

// Takes memory of a MemPool that serves others before memory runs out.
void* Allocator::TakeFromSpare(DeviceState& state, std::size_t bytes, cudaStream_t stream,
                               NamedPool** owner) {
  const Lock lock(mutex_);
  for (auto& [id, named] : state.named) {
    if (!named.is_used_when_memory_runs_out) continue;
    if (state.pool != nullptr &&
        StatisticsOf(state.pool).max_bytes >= StatisticsOf(state.pool).live_bytes + bytes)
      continue;
    if (void* const address = named.pool.Take(bytes, stream)) {
      *owner = &named;
      return address;
    }
  }
  return nullptr;
}

void Allocator::beginAllocateToPool(DeviceIndex device, MempoolId_t id, StreamFilter filter) {
  createOrIncrefPool(device, id, nullptr);
  DeviceState& state = StateOf(device);
  // The capture begins after this call. Afterwards an event on its stream would belong to the
  // graph, so the pool lets go of the stream before.
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
  if (stream != nullptr && HasPool(device)) Check(tidepool_stream_forget(state.pool, stream));
  // The filter of a graph names streams of a capture, so none yet; that of a MemPool names this
  // one.
  const bool is_capture = stream != nullptr && !filter(stream);
  if (is_capture) Check(tidepool_note_capture(PoolOf(device), 1));
  const Lock lock(mutex_);
  state.routes.push_back({id, std::move(filter), is_capture});
  state.captures += is_capture ? 1 : 0;
  ++routes_;
}

void Allocator::endAllocateToPool(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = std::find_if(state.routes.begin(), state.routes.end(),
                                  [&](const Route& route) { return route.id == id; });
  TORCH_CHECK(found != state.routes.end(),
              "tidepool: endAllocateToPool for a pool without a begin");
  const bool is_capture = found->is_capture;
  state.routes.erase(found);
  state.captures -= is_capture ? 1 : 0;
  --routes_;
  const AllowInCapture allow(true);
  if (is_capture) Check(tidepool_note_capture(state.pool, 0));
  FreeHeld(state);
}

void Allocator::createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                                   std::shared_ptr<CUDAAllocator> segments) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto [found, is_new] = state.named.try_emplace(id);
  if (!is_new) {
    TORCH_CHECK(segments == nullptr, "tidepool: a pool gets its allocator when it is made");
    ++found->second.uses;
    return;
  }
  found->second.id = id;
  found->second.segments = std::move(segments);
}

void Allocator::releasePool(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = state.named.find(id);
  TORCH_CHECK(found != state.named.end() && found->second.uses > 0,
              "tidepool: releasePool for a pool that does not exist");
  --found->second.uses;
}

int Allocator::getPoolUseCount(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = state.named.find(id);
  return found == state.named.end() ? 0 : found->second.uses;
}

void Allocator::setUseOnOOM(DeviceIndex device, MempoolId_t id, bool is_used) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  state.named.at(id).is_used_when_memory_runs_out = is_used;
}

void Allocator::setNoSplit(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  state.named.at(id).pool.KeepWhole();
}

// Gives segments of pools that are no longer used, and memory that captures held, back to the
// device's pool. Returns the bytes. A graph that is still running may use segments, so the device
// finishes its work before.
std::size_t Allocator::GiveBackIdle(DeviceState& state, const MempoolId_t* only) {
  const Lock lock(mutex_);
  const AllowInCapture allow(routes_ != 0);
  std::size_t given_back = FreeHeld(state);
  if (state.captures > 0) return given_back;  // a capture does not survive a wait for the device
  for (auto entry = state.named.begin(); entry != state.named.end();) {
    const auto current = entry++;
    NamedPool& named = current->second;
    if (only != nullptr ? current->first != *only : named.uses > 0) continue;
    const auto idle = named.pool.TakeIdle();
    if (!idle.empty()) C10_CUDA_CHECK(cudaDeviceSynchronize());
    for (const auto& [address, segment] : idle) {
      given_back += segment.bytes;
      if (named.segments != nullptr) {
        named.segments->raw_delete(address);
      } else {
        Check(tidepool_free(state.pool, address, state.service));
      }
    }
    if (named.uses == 0 && named.pool.is_empty()) state.named.erase(current);
  }
  return given_back;
}

void Allocator::emptyCache(MempoolId_t id) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    DeviceState& state = *devices_[i];
    if (state.pool == nullptr) continue;
    const c10::cuda::CUDAGuard guard(static_cast<DeviceIndex>(i));
    const bool is_whole = id == MempoolId_t{0, 0};
    GiveBackIdle(state, is_whole ? nullptr : &id);
    const AllowInCapture allow(routes_ != 0);
    if (routes_ == 0) Check(tidepool_trim(state.pool, 0, nullptr));
  }
}

bool Allocator::checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                         const std::unordered_set<void*>& expected) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = state.named.find(id);
  TORCH_CHECK(found != state.named.end(), "tidepool: no such pool");
  std::unordered_set<void*> live;
  for (const auto& [address, block] : found->second.pool.state().blocks) {
    if (block.is_live && ledger_.Has(address)) live.insert(address);
  }
  return live == expected;
}

std::shared_ptr<AllocatorState> Allocator::getCheckpointState(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = state.named.find(id);
  TORCH_CHECK(found != state.named.end(), "tidepool: no such pool");
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->id = id;
  checkpoint->state = found->second.pool.state();
  for (const auto& [address, block] : checkpoint->state.blocks) {
    if (!block.is_live) continue;
    ledger_.With(address, [&, begin = address](const Allocation& allocation) {
      checkpoint->live.push_back({begin, allocation.requested, allocation.stream});
    });
  }
  return checkpoint;
}

CheckpointDelta Allocator::setCheckpointPoolState(DeviceIndex device,
                                                  std::shared_ptr<AllocatorState> earlier) {
  const auto checkpoint = std::dynamic_pointer_cast<Checkpoint>(earlier);
  TORCH_CHECK(checkpoint != nullptr, "tidepool: the checkpoint is one of another allocator");
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = state.named.find(checkpoint->id);
  TORCH_CHECK(found != state.named.end(), "tidepool: no such pool");
  NamedPool& named = found->second;
  CheckpointDelta delta;
  for (const auto& [address, block] : named.pool.state().blocks) {
    Allocation freed;
    if (block.is_live && ledger_.Take(address, freed)) delta.ptrs_freed.push_back(address);
  }
  named.pool.Restore(checkpoint->state);
  for (const Checkpoint::Live& live : checkpoint->live) {
    Allocation allocation;
    allocation.requested = live.requested;
    allocation.stream = live.stream;
    allocation.device = device;
    allocation.owner = &named;
    ledger_.Add(live.address, std::move(allocation));
    delta.dataptrs_allocd.emplace_back(live.address, live.address, &Delete,
                                       c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

}  // namespace tidepool::torch_binding
