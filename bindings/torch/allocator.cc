// SPDX-License-Identifier: Apache-2.0
// Requests and frees. A request goes to the pool of its device, or to a named pool while PyTorch
// captures a graph or uses a MemPool.
#include <deque>

#include "inside.h"

namespace tidepool::torch_binding {
namespace {

// The regions that this thread has begun; one with the tag "" lets requests go to no region.
// A function that makes room may begin regions while a request refers to the last one.
thread_local std::deque<RegionOfThread> regions_of_thread;

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

// Returns the text of a pool's answer that has no memory. Throws after any other error.
std::string RefusalOf(tidepool_status status) {
  TORCH_CHECK(status == TIDEPOOL_OUT_OF_MEMORY || status == TIDEPOOL_DEADLINE_EXCEEDED,
              "tidepool: ", tidepool_last_error());
  return tidepool_last_error();
}

// Records the work of a stream. A destructor calls it, and at the end of the process CUDA has no
// devices: returns false after an error.
bool Record(cudaStream_t stream, DeviceIndex device, std::vector<cudaEvent_t>& events) {
  try {
    const c10::cuda::CUDAGuard guard(device);
    cudaEvent_t event = nullptr;
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) {
      if (cudaEventRecord(event, stream) == cudaSuccess) {
        events.push_back(event);
        return true;
      }
      static_cast<void>(cudaEventDestroy(event));
    }
    static_cast<void>(cudaGetLastError());
  } catch (const c10::Error&) {
  }
  return false;
}

// Returns whether other streams have finished with memory of a named pool. The device's pool waits
// for them itself.
bool HavePassed(HeldFree& held) {
  const bool have_passed =
      std::all_of(held.events.begin(), held.events.end(),
                  [](cudaEvent_t event) { return cudaEventQuery(event) == cudaSuccess; });
  static_cast<void>(cudaGetLastError());  // not ready is no error
  if (!have_passed) return false;
  for (cudaEvent_t event : held.events) static_cast<void>(cudaEventDestroy(event));
  return true;
}

}  // namespace

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
  ledger_.AddDevices(devices_.size());
  the_allocator = this;
  is_initialized_ = true;
}

// Does not ask CUDA where there is one device: that would take a fifth of the time of a request.
DeviceIndex Allocator::CurrentDevice() const {
  return devices_.size() == 1 ? DeviceIndex{0} : c10::cuda::current_device();
}

c10::DataPtr Allocator::allocate(std::size_t bytes) {
  const DeviceIndex device = CurrentDevice();
  void* const address = bytes == 0 ? nullptr : TakeOnCurrent(bytes, device);
  return {address, address, &Delete, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr Allocator::raw_deleter() const { return &Delete; }

void Allocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void* Allocator::raw_alloc(std::size_t bytes) {
  return bytes == 0 ? nullptr : TakeOnCurrent(bytes, CurrentDevice());
}

// The caller names the stream, which may be one that others made and may destroy.
void* Allocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  const DeviceIndex device = CurrentDevice();
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
  return Take(bytes, device, stream, stream != current.stream() || MayEnd(current));
}

void* Allocator::TakeOnCurrent(std::size_t bytes, DeviceIndex device) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device);
  return Take(bytes, device, stream, MayEnd(stream));
}

void* Allocator::Take(std::size_t bytes, DeviceIndex device, cudaStream_t stream, bool may_end) {
  DeviceState& state = StateOf(device);
  Allocation allocation;
  allocation.requested = bytes;
  allocation.stream = stream;
  allocation.device = device;
  void* address = nullptr;
  const RegionOfThread* region = nullptr;
  if (routes_ != 0) {
    if (!regions_of_thread.empty() && !regions_of_thread.back().tag.empty()) {
      region = &regions_of_thread.back();
    }
    allocation.owner = RoutedPool(state, stream);
    if (allocation.owner != nullptr) {
      address = TakeFromNamed(state, *allocation.owner, allocation.bytes(), device, stream);
    }
  }
  if (may_end && address == nullptr) [[unlikely]] {
    const AllowInCapture allow(routes_ != 0);
    Check(tidepool_stream_may_end(PoolOf(device), stream));
  }
  std::string refusal;
  if (address == nullptr && state.pool != nullptr && routes_ == 0 && state.limit == 0) {
    const tidepool_status status =
        tidepool_allocate(state.pool, bytes, stream, TIDEPOOL_RESIDENT, &address);
    if (status != TIDEPOOL_OK) [[unlikely]]
      refusal = RefusalOf(status);
  }
  if (address == nullptr && region == nullptr)
    address = TakeFromSpare(state, allocation.bytes(), stream, &allocation.owner);
  if (address == nullptr)
    address = TakeFromPool(state, bytes, device, stream, region, std::move(refusal));
  Note(address, std::move(allocation), region);
  return address;
}

bool Allocator::IsBeyondLimit(const DeviceState& state, std::size_t bytes) const {
  if (state.limit == 0) return false;
  return StatisticsOf(state.pool).live_bytes + bytes > state.limit;
}

// A region counts as a route, so that requests look for one only while there are some.
void Allocator::BeginRegion(const char* tag, int priority) {
  regions_of_thread.push_back({tag, priority});
  ++routes_;
}

void Allocator::EndRegion() {
  TORCH_CHECK(!regions_of_thread.empty(), "tidepool: this thread has begun no region");
  regions_of_thread.pop_back();
  --routes_;
}

// Asks the pool, or a region of it, and again if something made room. With option `wait` each
// question may take that time, so the one of which the caller has the refusal is not repeated.
void* Allocator::TakeFromPool(DeviceState& state, std::size_t bytes, DeviceIndex device,
                              cudaStream_t stream, const RegionOfThread* region,
                              std::string refusal) {
  tidepool_pool* const pool = PoolOf(device);
  const AllowInCapture allow(routes_ != 0);
  const auto ask = [&] {
    void* address = nullptr;
    if (IsBeyondLimit(state, bytes)) {
      refusal = Size(state.limit) + " are allowed by the memory fraction " +
                std::to_string(state.fraction);
      return address;
    }
    const tidepool_status status =
        region == nullptr
            ? tidepool_allocate(pool, bytes, stream, TIDEPOOL_RESIDENT, &address)
            : tidepool_allocate_by_priority(pool, region->tag.c_str(), region->priority, bytes,
                                            stream, TIDEPOOL_RESIDENT, &address);
    if (status != TIDEPOOL_OK) refusal = RefusalOf(status);
    return address;
  };
  void* address = refusal.empty() ? ask() : nullptr;
  if (address == nullptr && MakeRoom(state, device)) address = ask();
  if (address == nullptr) ThrowOutOfMemory(state, bytes, device, refusal);
  return address;
}

// Gives the pool all memory that it can get back. Returns whether it got some.
bool Allocator::MakeRoom(DeviceState& state, DeviceIndex device) {
  bool has_room = false;
  for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    has_room |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  has_room |= GiveBackIdle(state, nullptr) > 0;
  ledger_.WithCounts(device, [](Counts& counts) { counts.Retried(); });
  return has_room;
}

void Allocator::ThrowOutOfMemory(DeviceState& state, std::size_t bytes, DeviceIndex device,
                                 const std::string& cause) {
  const auto [free_bytes, total_bytes] = getMemoryInfo(device);
  std::size_t live = 0;
  std::vector<OutOfMemoryObserver> observers;
  ledger_.WithCounts(device, [](Counts& counts) { counts.RanOut(); });
  {
    const Lock lock(mutex_);
    observers = observers_;
    if (is_watched_) {
      history_.Add(TraceEntry(TraceEntry::OOM, device, free_bytes, bytes, nullptr, {0, 0},
                              c10::getApproximateTime()),
                   nullptr);
    }
  }
  live = StatisticsOf(state.pool).live_bytes;
  for (const OutOfMemoryObserver& observer : observers) {
    observer(device, bytes, total_bytes, free_bytes);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", Size(bytes),
                   ". GPU ", static_cast<int>(device), " has a total capacity of ",
                   Size(total_bytes), " of which ", Size(free_bytes), " is free. tidepool holds ",
                   Size(StatisticsOf(state.pool).reserved_bytes), ", of which ", Size(live),
                   " are in use. ", cause);
}

void Allocator::Note(void* address, Allocation&& allocation, const RegionOfThread* region) {
  if (is_watched_) [[unlikely]] {
    const Context context = history_.MakeContext(RecordContext::STATE);
    allocation.details = std::make_unique<Details>();
    allocation.details->context = context;
    const Lock lock(mutex_);
    std::string metadata = metadata_;
    if (region != nullptr) {
      metadata += (metadata.empty() ? "region \"" : ", region \"") + region->tag + "\"";
    }
    AddEntry(TraceEntry::ALLOC, allocation, address, context, std::move(metadata));
  }
  ledger_.Add(address, std::move(allocation));
}

void Allocator::AddEntry(TraceEntry::Action action, const Allocation& allocation,
                         const void* address, Context context, std::string metadata) {
  const MempoolId_t id = allocation.owner == nullptr ? MempoolId_t{0, 0} : allocation.owner->id;
  history_.Add(TraceEntry(action, allocation.device, reinterpret_cast<std::size_t>(address),
                          allocation.bytes(), allocation.stream, id, c10::getApproximateTime(),
                          nullptr, "", std::move(metadata)),
               std::move(context));
}

void Allocator::raw_delete(void* address) {
  if (address == nullptr || is_forked_) return;
  Allocation allocation;
  TORCH_CHECK(ledger_.Take(address, allocation), "tidepool: no allocation at ", address);
  DeviceState& state = *devices_[static_cast<std::size_t>(allocation.device)];
  if (is_watched_) [[unlikely]]
    AddFree(allocation, address);
  if (allocation.owner != nullptr) return FreeInNamed(state, address, allocation);
  if (routes_ != 0 && IsAnyCapturing(allocation)) {
    const Lock lock(mutex_);
    return Hold(state, address, allocation);
  }
  const AllowInCapture allow(routes_ != 0);
  FreeInPool(state, address, allocation, allocation.stream);
}

// The pool orders streams, so a free is complete when it is requested.
void Allocator::AddFree(const Allocation& allocation, const void* address) {
  const Context context = history_.MakeContext(RecordContext::ALL);
  const Lock lock(mutex_);
  AddEntry(TraceEntry::FREE_REQUESTED, allocation, address, context, metadata_);
  AddEntry(TraceEntry::FREE_COMPLETED, allocation, address, context, metadata_);
}

// A destructor calls it, and at the end of the process CUDA may be gone: errors are warnings.
void Allocator::FreeInPool(DeviceState& state, void* address, const Allocation& allocation,
                           cudaStream_t stream) {
  if (allocation.details != nullptr) {
    for (cudaStream_t use : allocation.details->uses) {
      tidepool_record_use(state.pool, address, use);
    }
  }
  if (tidepool_free(state.pool, address, stream) != TIDEPOOL_OK) {
    TORCH_WARN("tidepool: memory was not freed: ", tidepool_last_error());
  }
}

void Allocator::FreeInNamed(DeviceState& state, void* address, Allocation& allocation) {
  const Lock lock(mutex_);
  if (allocation.details == nullptr || allocation.details->uses.empty()) {
    allocation.owner->pool.Free(address);
    return;
  }
  Hold(state, address, allocation);
}

void Allocator::Hold(DeviceState& state, void* address, Allocation& allocation) {
  HeldFree held{address, std::move(allocation)};
  NoteStreams(state, held);
  state.held.push_back(std::move(held));
}

bool Allocator::NoteUse(const DeviceState& state, HeldFree& held, cudaStream_t stream,
                        DeviceIndex device) {
  if (held.allocation.owner != nullptr) return Record(stream, device, held.events);
  return tidepool_record_use(state.pool, held.address, stream) == TIDEPOOL_OK;
}

// Notes the work of each stream that does not capture. This names it for the last time: it exists
// at the free, and FreeHeld comes again when its capture ends. Returns whether all are noted; where
// only the stream of the allocation is left, it is free to take the memory back.
bool Allocator::NoteStreams(const DeviceState& state, HeldFree& held) {
  Allocation& its = held.allocation;
  bool has_uses = false;
  if (its.details != nullptr) {
    std::erase_if(its.details->uses, [&](const c10::cuda::CUDAStream& use) {
      return !MayCapture(use) && NoteUse(state, held, use, use.device_index());
    });
    has_uses = !its.details->uses.empty();
  }
  if (held.is_noted) return !has_uses;
  if (MayCapture(its.stream)) return false;
  if (its.owner != nullptr) {
    held.is_noted = true;
  } else if (has_uses) {
    held.is_noted = NoteUse(state, held, its.stream, its.device);
  }
  return !has_uses;
}

void Allocator::recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) {
  // Memory of another allocator, of another process or with an offset is not ours.
  if (memory.get() == nullptr || memory.get_deleter() != &Delete) return;
  bool is_told = false;  // whether the pool has to be told
  DeviceIndex device = 0;
  const bool is_captured = routes_ != 0 && IsCapturing(stream.stream());
  const bool is_ours = ledger_.With(memory.get(), [&](Allocation& allocation) {
    if (stream.stream() == allocation.stream) return;
    device = allocation.device;
    is_told = allocation.owner == nullptr && !is_captured;
    if (is_told) return;
    if (allocation.details == nullptr) allocation.details = std::make_unique<Details>();
    allocation.details->uses.push_back(stream);
  });
  TORCH_CHECK(is_ours, "tidepool: no allocation at ", memory.get());
  if (!is_told) return;
  tidepool_pool* const pool = StateOf(device).pool;
  if (MayEnd(stream)) Check(tidepool_stream_may_end(pool, stream.stream()));
  Check(tidepool_record_use(pool, memory.get(), stream.stream()));
}

// Frees memory that captures held, as far as other streams have finished with it. After an error
// the rest stays held. Returns the bytes that the device's pool got.
std::size_t Allocator::FreeHeld(DeviceState& state) {
  std::size_t freed = 0;
  for (std::size_t i = 0; i < state.held.size();) {
    HeldFree& each = state.held[i];
    if (!NoteStreams(state, each) || !HavePassed(each)) {
      ++i;
      continue;
    }
    if (each.allocation.owner == nullptr) {
      const Allocation& its = each.allocation;
      FreeInPool(state, each.address, its,
                 each.is_noted ? ServiceOf(state, its.device) : its.stream);
      freed += each.allocation.bytes();
    } else {
      each.allocation.owner->pool.Free(each.address);
    }
    std::swap(each, state.held.back());
    state.held.pop_back();
  }
  return freed;
}

}  // namespace tidepool::torch_binding
