// SPDX-License-Identifier: Apache-2.0
// Requests and frees. A request goes to the pool of its device, or to a named pool while PyTorch
// captures a graph or uses a MemPool.
#include "allocator.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

namespace tidepool::torch_binding {
namespace {

Allocator* the_allocator = nullptr;

std::string Size(std::size_t bytes) {
  char text[32];
  if (bytes < (1U << 20)) {
    std::snprintf(text, sizeof(text), "%.2f KiB", static_cast<double>(bytes) / (1 << 10));
  } else if (bytes < (1U << 30)) {
    std::snprintf(text, sizeof(text), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  } else {
    std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  }
  return text;
}

void Check(tidepool_status status) {
  TORCH_CHECK(status == TIDEPOOL_OK, "tidepool: ", tidepool_last_error());
}

bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

bool IsAnyCapturing(const Allocation& allocation) {
  if (IsCapturing(allocation.stream)) return true;
  return allocation.details != nullptr &&
         std::any_of(allocation.details->uses.begin(), allocation.details->uses.end(), IsCapturing);
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

void Delete(void* address) { the_allocator->raw_delete(address); }

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

bool IsEnd(const tidepool_block& block, const tidepool_block& next) {
  return static_cast<char*>(block.address) + block.bytes != next.address;
}

}  // namespace

// Pools of devices
// ---------------------------------------------------------------------------------

DeviceState& Allocator::StateOf(DeviceIndex device) {
  TORCH_CHECK(
      !is_forked_,
      "tidepool: this process was forked after tidepool.torch.enable(), and the memory belongs "
      "to its parent; start processes that use CUDA with the 'spawn' method");
  TORCH_CHECK(device >= 0 && static_cast<std::size_t>(device) < devices_.size(),
              "tidepool: no CUDA device ", static_cast<int>(device), ", expected 0 to ",
              static_cast<int>(devices_.size()) - 1);
  return *devices_[static_cast<std::size_t>(device)];
}

tidepool_pool* Allocator::PoolOf(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  if (state.pool == nullptr) {
    const AllowInCapture allow(routes_ != 0);
    const std::string options = options_ + ",device=cuda:" + std::to_string(device);
    Check(tidepool_pool_create(options.c_str(), &state.pool));
  }
  return state.pool;
}

bool Allocator::HasPool(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  return state.pool != nullptr;
}

void Allocator::init(int device_count) {
  const Lock lock(mutex_);
  while (devices_.size() < static_cast<std::size_t>(device_count)) {
    devices_.push_back(std::make_unique<DeviceState>());
  }
  the_allocator = this;
  is_initialized_ = true;
}

// Requests
// -----------------------------------------------------------------------------------------

c10::DataPtr Allocator::allocate(std::size_t bytes) {
  const DeviceIndex device = c10::cuda::current_device();
  void* const address =
      bytes == 0 ? nullptr : Take(bytes, device, c10::cuda::getCurrentCUDAStream(device));
  return {address, address, &Delete, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr Allocator::raw_deleter() const { return &Delete; }

void Allocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void* Allocator::raw_alloc(std::size_t bytes) {
  return raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream());
}

void* Allocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  return bytes == 0 ? nullptr : Take(bytes, c10::cuda::current_device(), stream);
}

void* Allocator::Take(std::size_t bytes, DeviceIndex device, cudaStream_t stream) {
  DeviceState& state = StateOf(device);
  Allocation allocation;
  allocation.requested = bytes;
  allocation.bytes = PrivatePool::Rounded(bytes);
  allocation.stream = stream;
  allocation.device = device;
  void* address = nullptr;
  if (routes_ != 0) {
    allocation.owner = RoutedPool(state, stream);
    if (allocation.owner != nullptr) {
      address = TakeFromNamed(state, *allocation.owner, allocation.bytes, device, stream);
    }
  }
  if (address == nullptr && state.pool != nullptr && routes_ == 0 && state.limit == 0 &&
      tidepool_allocate(state.pool, bytes, stream, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) {
    address = nullptr;
  }
  if (address == nullptr)
    address = TakeFromSpare(state, allocation.bytes, stream, &allocation.owner);
  if (address == nullptr) address = TakeFromPool(state, bytes, device, stream);
  Note(address, std::move(allocation));
  return address;
}

bool Allocator::IsBeyondLimit(const DeviceState& state, std::size_t bytes) const {
  if (state.limit == 0) return false;
  return StatisticsOf(state.pool).live_bytes + bytes > state.limit;
}

// Asks the pool until nothing is left that could make room.
void* Allocator::TakeFromPool(DeviceState& state, std::size_t bytes, DeviceIndex device,
                              cudaStream_t stream) {
  tidepool_pool* const pool = PoolOf(device);
  const AllowInCapture allow(routes_ != 0);
  std::string cause;
  for (int attempt = 0;; ++attempt) {
    void* address = nullptr;
    tidepool_status status = TIDEPOOL_OUT_OF_MEMORY;
    if (IsBeyondLimit(state, bytes)) {
      cause = Size(state.limit) + " are allowed by the memory fraction " +
              std::to_string(state.fraction);
    } else {
      status = tidepool_allocate(pool, bytes, stream, TIDEPOOL_RESIDENT, &address);
      if (status == TIDEPOOL_OK) return address;
      cause = tidepool_last_error();
    }
    TORCH_CHECK(status == TIDEPOOL_OUT_OF_MEMORY || status == TIDEPOOL_DEADLINE_EXCEEDED,
                "tidepool: ", cause);
    if (attempt == 1) ThrowOutOfMemory(state, bytes, device, cause);
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
      c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    }
    GiveBackIdle(state, nullptr);
    const Lock lock(mutex_);
    state.counts.Retried();
  }
}

void Allocator::ThrowOutOfMemory(DeviceState& state, std::size_t bytes, DeviceIndex device,
                                 const std::string& cause) {
  const auto [free_bytes, total_bytes] = getMemoryInfo(device);
  std::size_t live = 0;
  std::vector<OutOfMemoryObserver> observers;
  {
    const Lock lock(mutex_);
    state.counts.RanOut();
    observers = observers_;
    if (is_watched_) {
      history_.Add(TraceEntry(TraceEntry::OOM, device, free_bytes, bytes, nullptr, {0, 0},
                              c10::getApproximateTime()),
                   nullptr);
    }
  }
  live = StatisticsOf(state.pool).live_bytes;
  for (const OutOfMemoryObserver& observer : observers) {
    observer(device, live, total_bytes, free_bytes);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", Size(bytes),
                   ". GPU ", static_cast<int>(device), " has a total capacity of ",
                   Size(total_bytes), " of which ", Size(free_bytes), " is free. tidepool holds ",
                   Size(StatisticsOf(state.pool).reserved_bytes), ", of which ", Size(live),
                   " are in use. ", cause);
}

void Allocator::Note(void* address, Allocation allocation) {
  const bool is_watched = is_watched_;
  Context context;
  if (is_watched) {
    context = history_.MakeContext(RecordContext::STATE);
    allocation.details = std::make_unique<Details>();
    allocation.details->context = context;
  }
  const Lock lock(mutex_);
  DeviceState& state = *devices_[static_cast<std::size_t>(allocation.device)];
  state.counts.Allocated(allocation.requested, allocation.bytes);
  if (is_watched) AddEntry(TraceEntry::ALLOC, allocation, address, std::move(context));
  allocations_[address] = std::move(allocation);
}

void Allocator::AddEntry(TraceEntry::Action action, const Allocation& allocation,
                         const void* address, Context context) {
  const MempoolId_t id = allocation.owner == nullptr ? MempoolId_t{0, 0} : allocation.owner->id;
  history_.Add(TraceEntry(action, allocation.device, reinterpret_cast<std::size_t>(address),
                          allocation.bytes, allocation.stream, id, c10::getApproximateTime(),
                          nullptr, "", metadata_),
               std::move(context));
}

// Frees
// --------------------------------------------------------------------------------------------

void Allocator::raw_delete(void* address) {
  if (address == nullptr || is_forked_) return;
  const Context context = is_watched_ ? history_.MakeContext(RecordContext::ALL) : nullptr;
  Allocation allocation;
  DeviceState* state = nullptr;
  {
    const Lock lock(mutex_);
    const auto found = allocations_.find(address);
    TORCH_CHECK(found != allocations_.end(), "tidepool: no allocation at ", address);
    allocation = std::move(found->second);
    allocations_.erase(found);
    state = devices_[static_cast<std::size_t>(allocation.device)].get();
    state->counts.Freed(allocation.requested, allocation.bytes);
    if (is_watched_) {
      AddEntry(TraceEntry::FREE_REQUESTED, allocation, address, context);
      AddEntry(TraceEntry::FREE_COMPLETED, allocation, address, context);
    }
    if (allocation.owner != nullptr) return FreeInNamed(*state, address, allocation);
    if (routes_ != 0 && IsAnyCapturing(allocation)) {
      state->held.push_back({address, std::move(allocation), {}});
      return;
    }
  }
  const AllowInCapture allow(routes_ != 0);
  FreeInPool(*state, address, allocation);
}

// A destructor calls it, and at the end of the process CUDA may be gone: errors are warnings.
void Allocator::FreeInPool(DeviceState& state, void* address, const Allocation& allocation) {
  if (allocation.details != nullptr) {
    for (cudaStream_t stream : allocation.details->uses) {
      tidepool_record_use(state.pool, address, stream);
    }
  }
  if (tidepool_free(state.pool, address, allocation.stream) != TIDEPOOL_OK) {
    TORCH_WARN("tidepool: memory was not freed: ", tidepool_last_error());
  }
}

void Allocator::FreeInNamed(DeviceState& state, void* address, Allocation& allocation) {
  if (allocation.details == nullptr || allocation.details->uses.empty()) {
    allocation.owner->pool.Free(address);
    return;
  }
  state.held.push_back({address, std::move(allocation), {}});
}

void Allocator::recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) {
  // Memory of another allocator, of another process or with an offset is not ours.
  if (memory.get() == nullptr || memory.get_deleter() != &Delete) return;
  const Lock lock(mutex_);
  const auto found = allocations_.find(memory.get());
  TORCH_CHECK(found != allocations_.end(), "tidepool: no allocation at ", memory.get());
  Allocation& allocation = found->second;
  if (stream.stream() == allocation.stream) return;
  if (allocation.owner == nullptr && (routes_ == 0 || !IsCapturing(stream.stream()))) {
    Check(tidepool_record_use(devices_[static_cast<std::size_t>(allocation.device)]->pool,
                              memory.get(), stream.stream()));
    return;
  }
  if (allocation.details == nullptr) allocation.details = std::make_unique<Details>();
  allocation.details->uses.push_back(stream.stream());
}

// Frees memory that captures held, as far as other streams have finished with it.
void Allocator::FreeHeld(DeviceState& state) {
  std::vector<HeldFree> held;
  std::swap(held, state.held);
  for (HeldFree& each : held) {
    if (IsAnyCapturing(each.allocation)) {
      state.held.push_back(std::move(each));
      continue;
    }
    if (each.allocation.owner == nullptr) {
      FreeInPool(state, each.address, each.allocation);
      continue;
    }
    for (cudaStream_t stream : each.allocation.details->uses) {
      cudaEvent_t event = nullptr;
      C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      C10_CUDA_CHECK(cudaEventRecord(event, stream));
      each.events.push_back(event);
    }
    each.allocation.details->uses.clear();
    const bool is_done = std::all_of(each.events.begin(), each.events.end(), [](cudaEvent_t event) {
      return cudaEventQuery(event) == cudaSuccess;
    });
    static_cast<void>(cudaGetLastError());  // not ready is no error
    if (!is_done) {
      state.held.push_back(std::move(each));
      continue;
    }
    for (cudaEvent_t event : each.events) C10_CUDA_CHECK(cudaEventDestroy(event));
    each.allocation.owner->pool.Free(each.address);
  }
}

// Named pools
// --------------------------------------------------------------------------------------

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
    if (state.service == nullptr) {
      C10_CUDA_CHECK(cudaStreamCreateWithFlags(&state.service, cudaStreamNonBlocking));
    }
    address = TakeFromPool(state, segment, device, state.service);
    // A capture must not wait for the streams that used the memory before.
    C10_CUDA_CHECK(cudaStreamSynchronize(state.service));
  }
  const Lock lock(mutex_);
  named.pool.AddSegment(address, segment, stream);
  return named.pool.Take(bytes, stream);
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
  const Lock lock(mutex_);
  state.routes.push_back({id, std::move(filter)});
  ++routes_;
}

void Allocator::endAllocateToPool(DeviceIndex device, MempoolId_t id) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  const auto found = std::find_if(state.routes.begin(), state.routes.end(),
                                  [&](const Route& route) { return route.id == id; });
  TORCH_CHECK(found != state.routes.end(),
              "tidepool: endAllocateToPool for a pool without a begin");
  state.routes.erase(found);
  --routes_;
  const AllowInCapture allow(true);
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

// Gives segments of pools that are no longer used back to the device's pool. A graph that is still
// running may use them, so the device finishes its work before.
std::size_t Allocator::GiveBackIdle(DeviceState& state, const MempoolId_t* only) {
  const Lock lock(mutex_);
  const AllowInCapture allow(routes_ != 0);
  FreeHeld(state);
  std::size_t given_back = 0;
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
    if (block.is_live && allocations_.find(address) != allocations_.end()) live.insert(address);
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
    const auto allocation = allocations_.find(address);
    if (!block.is_live || allocation == allocations_.end()) continue;
    checkpoint->live.push_back({address, allocation->second.requested, allocation->second.stream});
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
    const auto allocation = allocations_.find(address);
    if (!block.is_live || allocation == allocations_.end()) continue;
    delta.ptrs_freed.push_back(address);
    state.counts.Freed(allocation->second.requested, allocation->second.bytes);
    allocations_.erase(allocation);
  }
  named.pool.Restore(checkpoint->state);
  for (const Checkpoint::Live& live : checkpoint->live) {
    Allocation allocation;
    allocation.requested = live.requested;
    allocation.bytes = checkpoint->state.blocks.at(live.address).bytes;
    allocation.stream = live.stream;
    allocation.device = device;
    allocation.owner = &named;
    state.counts.Allocated(allocation.requested, allocation.bytes);
    allocations_[live.address] = std::move(allocation);
    delta.dataptrs_allocd.emplace_back(live.address, live.address, &Delete,
                                       c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

// Queries
// ------------------------------------------------------------------------------------------

tidepool_statistics Allocator::StatisticsOf(tidepool_pool* pool) const {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof(statistics);
  if (pool != nullptr) Check(tidepool_get_statistics(pool, &statistics));
  return statistics;
}

DeviceStats Allocator::getDeviceStats(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  return state.counts.With(StatisticsOf(state.pool));
}

void Allocator::resetAccumulatedStats(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  state.counts.ResetAccumulated();
}

void Allocator::resetPeakStats(DeviceIndex device) {
  DeviceState& state = StateOf(device);
  const Lock lock(mutex_);
  state.counts.ResetPeaks();
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
  {
    const Lock lock(mutex_);
    const auto found = allocations_.find(address);
    TORCH_CHECK(found != allocations_.end(), "tidepool: no allocation at ", address);
    device = found->second.device;
  }
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
  const auto found = allocations_.find(address);
  if (is_live && found != allocations_.end()) {
    block.requested_size = found->second.requested;
    if (found->second.details != nullptr) {
      block.context_when_allocated = found->second.details->context;
    }
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
  if (include_traces) info.device_traces = history_.Entries(static_cast<int>(devices_.size()));
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

void Allocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  const Lock lock(mutex_);
  history_.AddTracker(std::move(tracker));
  is_watched_ = true;
}

// Other devices
// ------------------------------------------------------------------------------------

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
              "tidepool: its memory cannot be shared between processes; copy the tensor to "
              "the host first");
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle) {
  cudaIpcMemHandle_t shared;
  TORCH_CHECK(handle.size() == sizeof(shared),
              "tidepool: the handle is one of expandable segments");
  std::memcpy(&shared, handle.data(), sizeof(shared));
  void* address = nullptr;
  C10_CUDA_CHECK(cudaIpcOpenMemHandle(&address, shared, cudaIpcMemLazyEnablePeerAccess));
  return {address, [](void* opened) { static_cast<void>(cudaIpcCloseMemHandle(opened)); }};
}

}  // namespace tidepool::torch_binding
