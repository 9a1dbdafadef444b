// SPDX-License-Identifier: Apache-2.0
// The functions that tidepool.torch calls with ctypes. Errors are texts; null is success.
#include <pthread.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <chrono>

// One translation unit: each would read PyTorch's headers again, which takes most of the time.
#include "allocator.cc"
#include "exported.h"
#include "host_allocator.h"
#include "named_pools.cc"
#include "queries.cc"

namespace {

using tidepool::torch_binding::Allocator;

// Is never destroyed: tensors may be freed until the end of the process.
std::shared_ptr<Allocator>* allocator = nullptr;

// Finds the device and the stream, as every allocator of PyTorch does for a request. The
// memory is that of no tensor. Measurements subtract its time.
class NothingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t /*bytes*/) override {
    const c10::DeviceIndex device = c10::cuda::current_device();
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
    return {&memory_, stream == nullptr ? &memory_ : nullptr, raw_deleter(),
            c10::Device(c10::DeviceType::CUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* /*address*/) {};
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}

 private:
  char memory_ = 0;
};

// Stores the nanoseconds of a request and its free, as tensors make them.
void TimePairs(c10::Allocator& current, std::size_t bytes, long pairs, double* nanoseconds) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < pairs; ++i) {
    const c10::DataPtr memory = current.allocate(bytes);
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  *nanoseconds = spent.count() / static_cast<double>(pairs);
}

tidepool::torch_binding::PinnedAllocator* pinned = nullptr;

void FreePinned(void* address) { pinned->Free(address); }

void LeaveToParent() {
  (*allocator)->LeaveToParent();
  if (pinned != nullptr) pinned->LeaveToParent();
}

}  // namespace

extern "C" {

// Makes tidepool PyTorch's allocator. `options` are those of tidepool_pool_create, for each device.
EXPORTED const char* tidepool_torch_enable(const char* options) {
  return ErrorOf([&] {
    TORCH_CHECK(allocator == nullptr, "tidepool is PyTorch's allocator already");
    auto made = std::make_shared<Allocator>(options);
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(made);
    allocator = new std::shared_ptr<Allocator>(std::move(made));
    pthread_atfork(nullptr, nullptr, &LeaveToParent);
  });
}

// Makes tidepool PyTorch's allocator of page-locked memory, after tidepool_torch_enable. A second
// call changes nothing.
EXPORTED const char* tidepool_torch_enable_pinned() {
  return ErrorOf([] {
    if (pinned != nullptr) return;
    const auto pool_of = [](c10::DeviceIndex device) { return (*allocator)->PoolOf(device); };
    pinned = new tidepool::torch_binding::PinnedAllocator(pool_of, &FreePinned);
    // Priority 1 replaces PyTorch's own.
    at::setHostAllocator(at::kCUDA, pinned, 1);
  });
}

// Stores the pool of a device, and makes it if it has none yet.
EXPORTED const char* tidepool_torch_pool(int device, tidepool_pool** pool) {
  return ErrorOf([&] { *pool = (*allocator)->PoolOf(static_cast<c10::DeviceIndex>(device)); });
}

// Stores 1 if the device has a pool already.
EXPORTED const char* tidepool_torch_has_pool(int device, int* has_pool) {
  return ErrorOf(
      [&] { *has_pool = (*allocator)->HasPool(static_cast<c10::DeviceIndex>(device)) ? 1 : 0; });
}

// Lets the requests of this thread go to the region of a tag, with a priority, until a call with
// null ends it.
EXPORTED const char* tidepool_torch_region(const char* tag, int priority) {
  return ErrorOf([&] {
    if (tag == nullptr) {
      (*allocator)->EndRegion();
    } else {
      (*allocator)->BeginRegion(tag, priority);
    }
  });
}

// Times the current allocator of PyTorch.
EXPORTED const char* tidepool_torch_time_pairs(std::size_t bytes, long pairs, double* nanoseconds) {
  return ErrorOf(
      [&] { TimePairs(*c10::cuda::CUDACachingAllocator::get(), bytes, pairs, nanoseconds); });
}

// Times an allocator that does nothing: the part of PyTorch and of the CUDA runtime.
EXPORTED const char* tidepool_torch_time_floor_pairs(std::size_t bytes, long pairs,
                                                     double* nanoseconds) {
  return ErrorOf([&] {
    NothingAllocator nothing;
    TimePairs(nothing, bytes, pairs, nanoseconds);
  });
}

// Times the pool of the current device in the same way, without PyTorch's part.
EXPORTED const char* tidepool_torch_time_pool_pairs(std::size_t bytes, long pairs,
                                                    double* nanoseconds) {
  return ErrorOf([&] {
    const c10::DeviceIndex device = c10::cuda::current_device();
    tidepool_pool* const pool = (*allocator)->PoolOf(device);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < pairs; ++i) {
      void* address = nullptr;
      tidepool_allocate(pool, bytes, stream, TIDEPOOL_RESIDENT, &address);
      tidepool_free(pool, address, stream);
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    *nanoseconds = spent.count() / static_cast<double>(pairs);
  });
}

}  // extern "C"
