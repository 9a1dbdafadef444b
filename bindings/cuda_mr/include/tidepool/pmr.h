// SPDX-License-Identifier: Apache-2.0
// A std::pmr::memory_resource on a pool of the host device: `std::pmr::vector<float> v(&resource)`.
// Needs C++17 and libtidepool_c.so.
#ifndef TIDEPOOL_PMR_H_
#define TIDEPOOL_PMR_H_

#include <cstddef>
#include <memory_resource>
#include <string>

#include "tidepool/pool_owner.h"

namespace tidepool {

// Thread-safe. Throws tidepool::OutOfMemory, a std::bad_alloc, if memory is short.
class PmrResource : public std::pmr::memory_resource {
 public:
  // Makes a pool on the host device. Throws std::invalid_argument for a CUDA device: containers
  // touch their memory on the host.
  explicit PmrResource(const std::string& options = "device=host") : pool_(options) {
    int ordinal = 0;
    PoolOwner<>::Check(tidepool_get_device(pool(), &ordinal));
    if (ordinal >= 0)
      throw std::invalid_argument("tidepool: the pool is on a GPU: use device=host");
  }

  tidepool_pool* pool() const noexcept { return pool_.get(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    // A resource returns an address for zero bytes too.
    return pool_.AllocateForAll(bytes == 0 ? 1 : bytes, alignment);
  }
  void do_deallocate(void* address, std::size_t, std::size_t) override {
    pool_.Free(address, nullptr);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  PoolOwner<> pool_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_PMR_H_
