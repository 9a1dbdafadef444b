// SPDX-License-Identifier: Apache-2.0
// The live allocations of PyTorch, and their counts for torch.cuda.memory_stats.
#ifndef TIDEPOOL_BINDINGS_TORCH_LEDGER_H_
#define TIDEPOOL_BINDINGS_TORCH_LEDGER_H_

#include <c10/cuda/CUDAStream.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "../support/private_pool.h"
#include "counts.h"
#include "history.h"

namespace tidepool::torch_binding {

using bindings::PrivatePool;

struct NamedPool;

// The parts of an allocation that few have.
struct Details {
  std::vector<c10::cuda::CUDAStream> uses;  // others, where the pool was not told of them
  Context context;
};

struct Allocation {
  std::size_t requested = 0;
  cudaStream_t stream = nullptr;
  NamedPool* owner = nullptr;  // null: the device's pool
  std::unique_ptr<Details> details;
  c10::DeviceIndex device = 0;

  std::size_t bytes() const { return PrivatePool::Rounded(requested); }
};

// A mutex for a few instructions. A free costs one atomic operation less than that of std::mutex.
class ShortMutex {
 public:
  void lock() {
    while (is_taken_.exchange(true, std::memory_order_acquire)) {
      for (int looks = 0; is_taken_.load(std::memory_order_relaxed); ++looks) {
        if (looks > kMostLooks) std::this_thread::yield();  // its owner may not be running
      }
    }
  }
  void unlock() { is_taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kMostLooks = 64;

  std::atomic<bool> is_taken_ = false;
};

// Thread-safe. Each request and each free of a program passes here. A function that a caller gives
// must be short, and call neither the ledger nor a pool.
class Ledger {
 public:
  // Allows devices up to `count` - 1. Comes before the first use of them.
  void AddDevices(std::size_t count) {
    const Lock lock(mutex_);
    if (counts_.size() < count) counts_.resize(count);
  }

  void Add(void* address, Allocation&& allocation) {
    const Lock lock(mutex_);
    CountsOf(allocation).Allocated(allocation.requested, allocation.bytes());
    allocations_.insert_or_assign(address, std::move(allocation));
  }

  // Removes an allocation, and stores it. Returns false for an address without one.
  bool Take(void* address, Allocation& taken) {
    const Lock lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) return false;
    taken = std::move(found->second);
    allocations_.erase(found);
    CountsOf(taken).Freed(taken.requested, taken.bytes());
    return true;
  }

  // Calls `use` with an allocation. Returns false for an address without one.
  template <typename Use>
  bool With(const void* address, Use use) {
    const Lock lock(mutex_);
    const auto found = allocations_.find(const_cast<void*>(address));
    if (found == allocations_.end()) return false;
    use(found->second);
    return true;
  }
  bool Has(const void* address) {
    return With(address, [](const Allocation&) {});
  }

  // Calls `use` with the counts of a device, and returns its result.
  template <typename Use>
  auto WithCounts(c10::DeviceIndex device, Use use) {
    const Lock lock(mutex_);
    return use(counts_[static_cast<std::size_t>(device)]);
  }

 private:
  using Lock = std::lock_guard<ShortMutex>;

  Counts& CountsOf(const Allocation& allocation) {
    return counts_[static_cast<std::size_t>(allocation.device)];
  }

  ShortMutex mutex_;
  std::vector<Counts> counts_;  // by device
  ska::flat_hash_map<void*, Allocation> allocations_;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_LEDGER_H_
