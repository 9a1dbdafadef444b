// SPDX-License-Identifier: Apache-2.0
// A buffer leaves the device, waits in page-locked memory of the host, and comes back.
#include "check.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/host_device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

int main() {
  constexpr std::int64_t kBytes = std::int64_t{16} << 20;
  auto device = Check(tidepool::HostDevice::Create({}));
  auto pool = Check(tidepool::Pool::Create(device.get(), {.max_bytes = std::int64_t{64} << 20}));

  // [offload]
  auto pinned = Check(tidepool::PinnedPool::Create(device.get(), {.max_bytes = 64 << 20}));
  auto offloader = Check(tidepool::Offloader::Create(device.get(), pool.get(), pinned.get(), {}));
  const tidepool::Stream compute = Check(device->CreateStream());
  const tidepool::Event written = Check(device->CreateEvent());

  const tidepool::BufferId buffer = Check(offloader->Allocate(kBytes, compute));
  void* address = Check(offloader->Use(buffer, compute));
  Check(device->Fill(address, 1, kBytes, compute));  // the last work that writes the buffer
  Check(device->RecordEvent(written, compute));
  Check(offloader->Offload(buffer, written));  // begins after that work; the host does not wait

  // ... other work, which may use the memory that becomes free ...

  Check(offloader->Await(buffer));  // only here, so that the example shows both copies
  Check(offloader->Prefetch(buffer, compute));
  address = Check(offloader->Use(buffer, compute));  // compute waits for the copy, not the host
  Check(device->Fill(address, 2, kBytes, compute));
  Check(offloader->Free(buffer));
  Check(offloader->Synchronize());
  // [/offload]

  const tidepool::OffloaderStats stats = offloader->Stats();
  std::printf("%.0f MiB to the host, %.0f MiB back\n", MiB(stats.bytes_out), MiB(stats.bytes_in));
  return stats.bytes_out == kBytes && stats.bytes_in == kBytes ? 0 : 1;
}
