// SPDX-License-Identifier: Apache-2.0
// The functions that tidepool's backend of torch.compile calls with ctypes. Errors are texts; null
// is success.
#include "../exported.h"
#include "allocator.h"

namespace tidepool::torch_slab {
namespace {

// The calling thread's: whether requests are served by a plan, or noted.
thread_local Slab* planned = nullptr;
thread_local DeviceIndex planned_device = -1;
thread_local bool is_noting = false;

}  // namespace

SlabAllocator* SlabAllocator::the_allocator = nullptr;

bool SlabAllocator::Resize(DeviceIndex device, std::int64_t bytes) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
  char* earlier = nullptr;
  cudaStream_t last = nullptr;
  {
    const Lock lock(mutex_);
    Slab& slab = slabs_[device];
    if (slab.figures().live_bytes > 0) return false;
    earlier = slab.base();
    last = slab.stream();
    slab.SetMemory(nullptr, 0, stream);
  }
  if (earlier != nullptr) {
    C10_CUDA_CHECK(cudaStreamSynchronize(last));  // the inner allocator does not know of its work
    inner_.raw_delete(earlier);
  }
  // The cache would be reserved beside the slab.
  EmptyInnerCache();
  if (bytes == 0) return true;
  char* const base =
      static_cast<char*>(inner_.raw_alloc_with_stream(static_cast<std::size_t>(bytes), stream));
  const Lock lock(mutex_);
  slabs_[device].SetMemory(base, bytes, stream);
  return true;
}

void SlabAllocator::Begin(DeviceIndex device, const PlannedPass& pass) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
  const Lock lock(mutex_);
  planned = &slabs_[device];
  planned_device = device;
  planned->Begin(pass, stream);
}

void SlabAllocator::End() {
  const Lock lock(mutex_);
  if (planned != nullptr) planned->End();
  planned = nullptr;
}

SlabFigures SlabAllocator::FiguresOf(DeviceIndex device) {
  const Lock lock(mutex_);
  return slabs_[device].figures();
}

void SlabAllocator::BeginNotes() {
  const Lock lock(mutex_);
  notes_.clear();
  is_noting = true;
}

std::vector<Noted> SlabAllocator::EndNotes() {
  const Lock lock(mutex_);
  is_noting = false;
  return std::exchange(notes_, {});
}

void* SlabAllocator::Take(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  if (is_noting) return TakeNoted(bytes, stream);
  if (planned == nullptr || c10::cuda::current_device() != planned_device) return nullptr;
  const Lock lock(mutex_);
  return planned->Take(Rounded(bytes), stream);
}

void* SlabAllocator::TakeNoted(std::size_t bytes, cudaStream_t stream) {
  void* const address = inner_.raw_alloc_with_stream(bytes, stream);
  const Lock lock(mutex_);
  const auto number =
      std::count_if(notes_.begin(), notes_.end(), [](const Noted& note) { return note.bytes > 0; });
  notes_.push_back({Rounded(bytes), number, address});
  noted_[address] = number;
  return address;
}

c10::DataPtr SlabAllocator::allocate(std::size_t bytes) {
  if (!is_noting && planned == nullptr) [[likely]]
    return inner_.allocate(bytes);
  const DeviceIndex device = c10::cuda::current_device();
  void* const address = Take(bytes, c10::cuda::getCurrentCUDAStream(device));
  if (address == nullptr) return inner_.allocate(bytes);
  return {address, address, &Delete, c10::Device(c10::DeviceType::CUDA, device)};
}

void* SlabAllocator::raw_alloc(std::size_t bytes) {
  void* const address = Take(bytes, c10::cuda::getCurrentCUDAStream());
  return address != nullptr ? address : inner_.raw_alloc(bytes);
}

void* SlabAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  void* const address = Take(bytes, stream);
  return address != nullptr ? address : inner_.raw_alloc_with_stream(bytes, stream);
}

Slab* SlabAllocator::SlabOf(const void* address) {
  for (auto& [device, slab] : slabs_) {
    if (slab.Contains(address)) return &slab;
  }
  return nullptr;
}

void SlabAllocator::raw_delete(void* address) {
  {
    const Lock lock(mutex_);
    if (Slab* const slab = SlabOf(address)) return slab->Free(address);
    const auto found = noted_.find(address);
    if (found != noted_.end()) {
      if (is_noting) notes_.push_back({0, found->second, address});
      noted_.erase(found);
    }
  }
  inner_.raw_delete(address);
}

void SlabAllocator::recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) {
  if (memory.get_deleter() != &Delete) return inner_.recordStream(memory, stream);
  const Lock lock(mutex_);
  if (Slab* const slab = SlabOf(memory.get())) slab->AddUse(memory.get(), stream.stream());
}

void* SlabAllocator::getBaseAllocation(void* address, std::size_t* bytes) {
  const void* base = address;
  {
    const Lock lock(mutex_);
    if (Slab* const slab = SlabOf(address)) base = slab->base();
  }
  return inner_.getBaseAllocation(const_cast<void*>(base), bytes);
}

ShareableHandle SlabAllocator::shareIpcHandle(void* address) {
  {
    const Lock lock(mutex_);
    TORCH_CHECK(SlabOf(address) == nullptr,
                "tidepool: memory of a planned step cannot be shared between processes; copy the "
                "tensor first");
  }
  return inner_.shareIpcHandle(address);
}

}  // namespace tidepool::torch_slab

namespace {

using tidepool::torch_slab::SlabAllocator;

// Is never destroyed: tensors may be freed until the end of the process.
SlabAllocator* allocator = nullptr;
std::vector<tidepool::torch_slab::Noted> notes;

}  // namespace

extern "C" {

// Puts the allocator around the one that PyTorch has. A second call changes nothing.
EXPORTED const char* tidepool_slab_install() {
  return ErrorOf([] {
    if (allocator != nullptr) return;
    auto& current = c10::cuda::CUDACachingAllocator::allocator;
    allocator = new SlabAllocator(*current.load());
    current.store(allocator);
  });
}

// Stores 1 if the slab of the device has `bytes` bytes now, and 0 if a request still lives in it.
EXPORTED const char* tidepool_slab_resize(int device, std::int64_t bytes, int* is_done) {
  return ErrorOf(
      [&] { *is_done = allocator->Resize(static_cast<c10::DeviceIndex>(device), bytes) ? 1 : 0; });
}

// Begins a pass of the calling thread. The arrays, of `count` elements, stay until its end.
EXPORTED const char* tidepool_slab_begin(int device, std::int64_t count, const std::int64_t* bytes,
                                         const std::int64_t* offsets) {
  return ErrorOf([&] {
    allocator->Begin(static_cast<c10::DeviceIndex>(device), {count, bytes, offsets});
  });
}

EXPORTED const char* tidepool_slab_end() {
  return ErrorOf([] { allocator->End(); });
}

// Stores bytes, live bytes, served requests and deviations.
EXPORTED const char* tidepool_slab_figures(int device, std::int64_t figures[4]) {
  return ErrorOf([&] {
    const auto found = allocator->FiguresOf(static_cast<c10::DeviceIndex>(device));
    figures[0] = found.bytes;
    figures[1] = found.live_bytes;
    figures[2] = found.served;
    figures[3] = found.deviations;
  });
}

EXPORTED const char* tidepool_slab_begin_notes() {
  return ErrorOf([] { allocator->BeginNotes(); });
}

// Ends the notes, and stores their number.
EXPORTED const char* tidepool_slab_end_notes(std::int64_t* count) {
  return ErrorOf([&] {
    notes = allocator->EndNotes();
    *count = static_cast<std::int64_t>(notes.size());
  });
}

// Stores each note: bytes (0 for a free), the number of the request, and its address.
EXPORTED void tidepool_slab_read_notes(std::int64_t* fields) {
  for (const auto& note : notes) {
    *fields++ = note.bytes;
    *fields++ = note.request;
    *fields++ = reinterpret_cast<std::int64_t>(note.address);
  }
}

}  // extern "C"
