// SPDX-License-Identifier: Apache-2.0
// A host device with streams and a pool on it.
#ifndef TIDEPOOL_TESTS_MEMORY_POOL_POOL_FIXTURE_H_
#define TIDEPOOL_TESTS_MEMORY_POOL_POOL_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/sizes.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool {

// The kinds of memory of a pool.
struct PoolKind {
  const char* name;
  PoolMemory memory;
  bool remap = false;
};

inline constexpr PoolKind kVirtualPool = {"virtual", PoolMemory::kVirtual};
inline constexpr PoolKind kRemappingPool = {"remapping", PoolMemory::kVirtual, true};
inline constexpr PoolKind kSegmentPool = {"segments", PoolMemory::kSegments};
inline constexpr std::array kPoolKinds = {kVirtualPool, kRemappingPool, kSegmentPool};

inline void PrintTo(const PoolKind& kind, std::ostream* out) { *out << kind.name; }

class PoolFixture : public ::testing::Test {
 protected:
  explicit PoolFixture(const HostDeviceOptions& options = {.memory_bytes = 256 * kMiB})
      : device_(HostDevice::Create(options).value()) {}

  Stream NewStream() { return device_->CreateStream().value(); }
  std::unique_ptr<Pool> NewPool(const PoolOptions& options) {
    return Pool::Create(device_.get(), options).value();
  }
  static std::int64_t OffsetOf(const Pool& pool, void* address) { return pool.OffsetOf(address); }

  std::unique_ptr<HostDevice> device_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_POOL_POOL_FIXTURE_H_
