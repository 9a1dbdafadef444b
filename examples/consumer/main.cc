// SPDX-License-Identifier: Apache-2.0
// Allocates from a pool on the host device, which stands for a GPU.
#include <cstdint>
#include <iostream>

#include "tidepool/host_device.h"
#include "tidepool/pool.h"

int main() {
  const auto device = tidepool::HostDevice::Create({.memory_bytes = std::int64_t{64} << 20});
  if (!device.ok()) return 1;
  const auto pool = tidepool::Pool::Create(device->get(), {.max_bytes = std::int64_t{16} << 20});
  const auto stream = (*device)->CreateStream();
  if (!pool.ok() || !stream.ok()) return 1;
  const auto buffer = (*pool)->Allocate(1000, *stream);
  if (!buffer.ok()) return 1;
  std::cout << (*pool)->Stats().live_bytes << " bytes live\n";
  return (*pool)->Free(*buffer, *stream).ok() ? 0 : 1;
}
