// SPDX-License-Identifier: Apache-2.0
// libtidepool_torch.so: the functions of a torch.cuda.memory.CUDAPluggableAllocator. They need no
// header of PyTorch, so one library serves all versions. They serve a region of a program
// (tidepool.torch.MemPool), and whole programs where the class of allocator.h cannot be compiled.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "tidepool/c_api.h"

#define EXPORTED __attribute__((visibility("default")))

namespace {

using MempoolId = std::pair<std::uint64_t, std::uint64_t>;

// One pool for each device, made by its first request. Is never destroyed: PyTorch may free memory
// until the end of the process.
class Pools {
 public:
  void SetOptions(std::string options) {
    const std::lock_guard lock(mutex_);
    options_ = std::move(options);
  }

  tidepool_pool* Of(int device) {
    const std::lock_guard lock(mutex_);
    tidepool_pool*& pool = pools_[device];
    if (pool != nullptr) return pool;
    const std::string options = options_ + ",device=cuda:" + std::to_string(device);
    if (tidepool_pool_create(options.c_str(), &pool) != TIDEPOOL_OK) {
      throw std::runtime_error(std::string("tidepool: ") + tidepool_last_error());
    }
    return pool;
  }

  // Returns the pool of an address, or null.
  tidepool_pool* Owner(const void* address) {
    const std::lock_guard lock(mutex_);
    for (const auto& [device, pool] : pools_) {
      int owns = 0;
      if (pool != nullptr && tidepool_owns(pool, address, &owns) == TIDEPOOL_OK && owns != 0) {
        return pool;
      }
    }
    return nullptr;
  }

  // Returns the pool of a device, or null if it has none yet.
  tidepool_pool* Find(int device) {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(device);
    return found == pools_.end() ? nullptr : found->second;
  }

  void Trim() {
    const std::lock_guard lock(mutex_);
    for (const auto& [device, pool] : pools_) {
      if (pool != nullptr) tidepool_trim(pool, 0, nullptr);
    }
  }

 private:
  std::mutex mutex_;
  std::string options_;
  std::map<int, tidepool_pool*> pools_;
};

Pools& ThePools() {
  static auto* const pools = new Pools();
  return *pools;
}

[[noreturn]] void RefuseGraphs() {
  throw std::runtime_error(
      "tidepool: CUDA graphs and MemPool need the compiled allocator; install a C++ compiler and "
      "the "
      "headers of the CUDA Toolkit, or do not call tidepool.torch.enable()");
}

}  // namespace

extern "C" {

EXPORTED void tidepool_pluggable_set_options(const char* options) {
  ThePools().SetOptions(options);
}

// Stores null if the device has no pool yet.
EXPORTED void tidepool_pluggable_pool(int device, tidepool_pool** pool) {
  *pool = ThePools().Find(device);
}

// PyTorch takes a null address for success, so the function throws. Zero bytes have no address.
EXPORTED void* tidepool_pluggable_alloc(std::size_t bytes, int device, void* stream) {
  void* address = nullptr;
  tidepool_pool* const pool = ThePools().Of(device);
  if (tidepool_allocate(pool, bytes, stream, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) {
    throw std::runtime_error(std::string("CUDA out of memory. tidepool: ") + tidepool_last_error());
  }
  return address;
}

// A MemPool takes null for out of memory, and raises torch.OutOfMemoryError.
EXPORTED void* tidepool_pluggable_segment(std::size_t bytes, int device, void* stream) {
  void* address = nullptr;
  tidepool_pool* const pool = ThePools().Of(device);
  const tidepool_status status =
      tidepool_allocate(pool, bytes, stream, TIDEPOOL_RESIDENT, &address);
  if (status == TIDEPOOL_OUT_OF_MEMORY || status == TIDEPOOL_DEADLINE_EXCEEDED) return nullptr;
  if (status != TIDEPOOL_OK) {
    throw std::runtime_error(std::string("tidepool: ") + tidepool_last_error());
  }
  return address;
}

EXPORTED void tidepool_pluggable_free(void* address, std::size_t /*bytes*/, int device,
                                      void* stream) {
  tidepool_pool* const pool = ThePools().Find(device);
  if (pool != nullptr) tidepool_free(pool, address, stream);
}

EXPORTED void tidepool_pluggable_record_stream(void* address, void* stream) {
  tidepool_pool* const pool = ThePools().Owner(address);
  if (pool != nullptr) tidepool_record_use(pool, address, stream);
}

EXPORTED void tidepool_pluggable_reset() { ThePools().Trim(); }

EXPORTED void tidepool_pluggable_init(int /*devices*/) {}

EXPORTED void tidepool_pluggable_memory_fraction(double /*fraction*/, int /*device*/) {
  throw std::runtime_error(
      "tidepool: give tidepool.torch.enable() a budget instead of a memory fraction");
}

EXPORTED void* tidepool_pluggable_base(void* /*address*/, std::size_t* /*bytes*/) {
  throw std::runtime_error("tidepool: its memory cannot be shared between processes");
}

// PyTorch calls it with these types.
// NOLINTBEGIN(performance-unnecessary-value-param)
EXPORTED void tidepool_pluggable_begin(int /*device*/, MempoolId /*id*/,
                                       std::function<bool(void*)> /*filter*/) {
  RefuseGraphs();
}
// NOLINTEND(performance-unnecessary-value-param)

}  // extern "C"
