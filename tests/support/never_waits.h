// SPDX-License-Identifier: Apache-2.0
// A device without WaitEvent: tests of the order between streams must fail on it.
#ifndef TIDEPOOL_TESTS_SUPPORT_NEVER_WAITS_H_
#define TIDEPOOL_TESTS_SUPPORT_NEVER_WAITS_H_

#include "tests/support/forwarding_device.h"

namespace tidepool::testing {

class NeverWaits : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::Status WaitEvent(Stream /*stream*/, Event /*event*/) override { return absl::OkStatus(); }
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_NEVER_WAITS_H_
