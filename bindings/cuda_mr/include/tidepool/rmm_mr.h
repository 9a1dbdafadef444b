// SPDX-License-Identifier: Apache-2.0
// A memory resource for RMM on a pool. From RMM 26.6 on it is a resource of cuda::mr without a base
// class; before, it derives from rmm::mr::device_memory_resource. It throws RMM's exceptions. Needs
// C++17, RMM's headers and libtidepool_c.so.
#ifndef TIDEPOOL_RMM_MR_H_
#define TIDEPOOL_RMM_MR_H_

#include <cstddef>
#include <rmm/error.hpp>
#include <string>

#include "tidepool/pool_owner.h"

#if __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#define TIDEPOOL_RMM_HAS_BASE_CLASS 1
#include <rmm/mr/device/device_memory_resource.hpp>
#elif __has_include(<rmm/mr/device_memory_resource.hpp>)
#define TIDEPOOL_RMM_HAS_BASE_CLASS 1
#include <rmm/mr/device_memory_resource.hpp>
#else
#define TIDEPOOL_RMM_HAS_BASE_CLASS 0
#include "tidepool/cuda_mr.h"
#endif

namespace tidepool {

// Throws rmm::out_of_memory if memory is short, and rmm::logic_error for all other errors.
struct RmmErrors {
  [[noreturn]] static void Throw(tidepool_status status, const std::string& text) {
    if (status == TIDEPOOL_OUT_OF_MEMORY || status == TIDEPOOL_DEADLINE_EXCEEDED) {
      throw rmm::out_of_memory(text);
    }
    throw rmm::logic_error("tidepool: " + text);
  }
};

#if TIDEPOOL_RMM_HAS_BASE_CLASS

// Thread-safe. Resources are equal if they have the same pool.
class RmmMemoryResource final : public rmm::mr::device_memory_resource {
 public:
  // Makes a pool; `options` are those of tidepool_pool_create, such as "device=cuda:0,budget=80%".
  explicit RmmMemoryResource(const std::string& options) : pool_(options) {}
  // Uses a pool of the caller, which outlives the resource.
  explicit RmmMemoryResource(tidepool_pool* pool) : pool_(pool) {}

  tidepool_pool* pool() const noexcept { return pool_.get(); }

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    return pool_.Allocate(bytes, 256, stream.value());
  }
  void do_deallocate(void* address, std::size_t /*bytes*/,
                     rmm::cuda_stream_view stream) noexcept override {
    pool_.Free(address, stream.value());
  }
  bool do_is_equal(const rmm::mr::device_memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const RmmMemoryResource*>(&other);
    return same != nullptr && same->pool_ == pool_;
  }

  PoolOwner<RmmErrors> pool_;
};

#else

using RmmMemoryResource = BasicMemoryResource<RmmErrors>;
static_assert(cuda::mr::resource_with<RmmMemoryResource, cuda::mr::device_accessible>);

#endif

}  // namespace tidepool

#endif  // TIDEPOOL_RMM_MR_H_
