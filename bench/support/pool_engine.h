// SPDX-License-Identifier: Apache-2.0
// A pool for benchmarks, on a host device with memory that is never touched.
#ifndef TIDEPOOL_BENCH_SUPPORT_POOL_ENGINE_H_
#define TIDEPOOL_BENCH_SUPPORT_POOL_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool::bench {

inline constexpr std::int64_t kDeviceBytes = std::int64_t{4} << 40;  // no request is refused

// A pool on a device of its own.
class PoolOnHost {
 public:
  explicit PoolOnHost(const PoolOptions& options, HostDeviceOptions device = {})
      : device_(HostDevice::Create(OfSize(device)).value()),
        pool_(Pool::Create(device_.get(), options).value()) {}

  HostDevice& device() { return *device_; }
  Pool& pool() { return *pool_; }
  Stream NewStream() { return device_->CreateStream().value(); }

 private:
  static HostDeviceOptions OfSize(HostDeviceOptions options) {
    options.memory_bytes = kDeviceBytes;
    return options;
  }

  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Pool> pool_;
};

// One stream of a pool. Every fourth request is offloadable.
class PoolEngine {
 public:
  PoolEngine(Pool& pool, Stream stream) : pool_(pool), stream_(stream) {}

  void* Allocate(std::int64_t bytes) {
    const Hint hint = (++requests_ & 3) == 0 ? Hint::kOffloadable : Hint::kResident;
    return pool_.Allocate(static_cast<std::size_t>(bytes), stream_, hint).value();
  }
  void Free(void* address) { pool_.Free(address, stream_).IgnoreError(); }

 private:
  Pool& pool_;
  Stream stream_;
  std::uint64_t requests_ = 0;
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_POOL_ENGINE_H_
