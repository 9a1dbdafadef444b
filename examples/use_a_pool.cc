// SPDX-License-Identifier: Apache-2.0
// The smallest program that uses a pool: one device, one stream, one buffer.
#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

int main() {
  // [use-the-pool]
  auto device = Check(tidepool::HostDevice::Create({.memory_bytes = std::int64_t{8} << 30}));
  tidepool::PoolOptions options;
  options.initial_bytes = std::int64_t{1} << 30;  // reserved at once
  options.max_bytes = std::int64_t{4} << 30;      // the budget; never exceeded
  options.placement = "best-fit";
  auto pool = Check(tidepool::Pool::Create(device.get(), options));

  const tidepool::Stream stream = Check(device->CreateStream());
  void* buffer = Check(pool->Allocate(1000, stream));
  Check(device->Fill(buffer, 0, 1000, stream));  // queued, as a kernel is
  Check(pool->Free(buffer, stream));             // at once: the queued work may still use it
  Check(device->SynchronizeStream(stream));
  // [/use-the-pool]

  const tidepool::PoolStats stats = pool->Stats();
  std::printf("%.0f MiB reserved, %.0f MiB live, %lld allocations\n", MiB(stats.reserved_bytes),
              MiB(stats.live_bytes), static_cast<long long>(stats.allocations));
  return 0;
}
