// SPDX-License-Identifier: Apache-2.0
// Allocates from a pool on the host.
#include <cstdio>

#include "tidepool/host_device.h"
#include "tidepool/pool.h"

int main() {
  auto device = tidepool::HostDevice::Create({.memory_bytes = 1 << 20});
  if (!device.ok()) return 1;
  auto pool = tidepool::Pool::Create(device->get(), {});
  const auto stream = (*device)->CreateStream();
  if (!pool.ok() || !stream.ok()) return 1;
  const auto buffer = (*pool)->Allocate(1000, *stream);
  if (!buffer.ok() || !(*pool)->Free(*buffer, *stream).ok()) return 1;
  return std::puts(tidepool::ToString((*pool)->Stats()).c_str()) < 0;
}
