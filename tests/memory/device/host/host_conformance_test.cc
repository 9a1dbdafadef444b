// SPDX-License-Identifier: Apache-2.0
// The host device passes the tests of all devices.
#include "tests/memory/device/conformance.h"
#include "tidepool/host_device.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeHostDevice() {
  return *HostDevice::Create({.memory_bytes = 64 << 20, .granularity = 16 << 10});
}

// Slower than any host, so that tests observe work that waits for its simulated time.
std::unique_ptr<Device> MakeSlowHostDevice() {
  return *HostDevice::Create({.memory_bytes = 64 << 20,
                              .granularity = 16 << 10,
                              .copy_bytes_per_second = 1e9,
                              .copy_latency_ns = 1'000'000});
}

std::unique_ptr<Device> MakePlainHostDevice() {
  return *HostDevice::Create({.memory_bytes = 64 << 20, .granularity = 0});
}

TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(Host, MakeHostDevice);
TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(SlowHost, MakeSlowHostDevice);
TIDEPOOL_INSTANTIATE_CONFORMANCE_WITHOUT_VIRTUAL_MEMORY(PlainHost, MakePlainHostDevice);

}  // namespace
}  // namespace tidepool
