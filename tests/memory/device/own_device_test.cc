// SPDX-License-Identifier: Apache-2.0
// The device of the example passes the suite.
#include "examples/own_device.h"

#include <memory>

#include "tests/memory/device/conformance.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeOwnDevice() {
  return std::make_unique<OwnDevice>(std::int64_t{64} << 20);
}

TIDEPOOL_INSTANTIATE_CONFORMANCE_OF_DEFAULTS(Own, MakeOwnDevice);

}  // namespace
}  // namespace tidepool
