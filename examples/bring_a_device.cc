// SPDX-License-Identifier: Apache-2.0
// A pool on a device of your own (own_device.h).
#include "check.h"
#include "own_device.h"
#include "tidepool/pool.h"

int main() {
  // [bring-a-device]
  OwnDevice device(std::int64_t{64} << 20);
  auto pool = Check(tidepool::Pool::Create(&device, {.max_bytes = std::int64_t{32} << 20}));
  const tidepool::Stream stream = Check(device.CreateStream());
  void* buffer = Check(pool->Allocate(1000, stream));
  Check(device.Fill(buffer, 7, 1000, stream));  // queued: the stream is a thread
  Check(pool->Free(buffer, stream));
  Check(device.SynchronizeStream(stream));
  // [/bring-a-device]
  std::printf("%s: %lld bytes reserved\n", device.name().c_str(),
              static_cast<long long>(pool->Stats().reserved_bytes));
  return 0;
}
