// SPDX-License-Identifier: Apache-2.0
// The one counter of names in the process. It lies in one library, even if devices come from
// several.
#include <atomic>

#include "tidepool/device.h"

namespace tidepool {

std::uint64_t TakeDeviceNames(std::uint64_t count) {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace tidepool
