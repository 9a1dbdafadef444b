// SPDX-License-Identifier: Apache-2.0
// Two streams share a pool: memory that one stream has freed goes to the other stream after the
// work that may still use it, and the host waits for neither.
#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

int main() {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  auto device = Check(tidepool::HostDevice::Create({.memory_bytes = std::int64_t{64} << 20}));
  tidepool::PoolOptions options;
  options.max_bytes = std::int64_t{32} << 20;
  auto pool = Check(tidepool::Pool::Create(device.get(), options));

  // [two-streams]
  const tidepool::Stream compute = Check(device->CreateStream());
  const tidepool::Stream copies = Check(device->CreateStream());
  for (int step = 0; step < 100; ++step) {
    const tidepool::Stream stream = step % 2 == 0 ? compute : copies;
    void* buffer = Check(pool->Allocate(kBytes, stream));
    Check(device->Fill(buffer, 1, kBytes, stream));
    Check(pool->Free(buffer, stream));  // at once: the fill still runs
  }
  // [/two-streams]

  const tidepool::PoolStats stats = pool->Stats();
  std::printf("%lld allocations from %lld bytes, %lld waits of one stream for the other\n",
              static_cast<long long>(stats.allocations),
              static_cast<long long>(stats.reserved_bytes),
              static_cast<long long>(stats.stream_waits));
  return 0;
}
