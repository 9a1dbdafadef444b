// One count for the whole process, whichever libraries its devices come from.
#include <atomic>

#include "tidepool/device.h"

namespace tidepool {

std::uint64_t TakeDeviceNames(std::uint64_t count) {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace tidepool
