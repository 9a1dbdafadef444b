// SPDX-License-Identifier: Apache-2.0
// Device memory: counts the bytes that the allocator has taken from the device.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_

#include <cstdint>

#include "lib/trace/caching_allocator/address_space.h"
#include "lib/trace/caching_allocator/memory_limit.h"

namespace tidepool::caching_allocator {

class DeviceMemory {
 public:
  DeviceMemory(const MemoryLimit& limit, SegmentOrder order) : limit_(limit), addresses_(order) {}

  // Takes `bytes`. Returns false, and takes nothing, if the device lacks them.
  bool Take(std::int64_t bytes) {
    if (!limit_.DeviceHas(reserved_ + bytes)) return false;
    reserved_ += bytes;
    return true;
  }
  void GiveBack(std::int64_t bytes) { reserved_ -= bytes; }

  // The addresses of segments that do not grow.
  AddressSpace& addresses() { return addresses_; }

  std::int64_t reserved() const { return reserved_; }
  const MemoryLimit& limit() const { return limit_; }
  MemoryLimit& limit() { return limit_; }

 private:
  MemoryLimit limit_;
  std::int64_t reserved_ = 0;
  AddressSpace addresses_;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_
