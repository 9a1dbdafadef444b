// SPDX-License-Identifier: Apache-2.0
// The gradients in the values of a datum on one device: for each of its bytes, the devices of which
// the sum has the gradient. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "lib/training/schedule/steps/byte_ranges.h"
#include "lib/training/schedule/steps/byte_values.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// A set of devices: the bit of each one's number.
using DeviceSet = std::uint64_t;
static_assert(kMostScheduleDevices <= 64);
inline DeviceSet SetOf(std::size_t device) { return DeviceSet{1} << device; }

class GradientParts {
 public:
  // All bytes have the gradients of these devices. O(parts).
  void Reset(std::int64_t bytes, DeviceSet devices) {
    parts_.Clear();
    parts_.Add({0, bytes}, devices);
  }

  // Whether no task has written the data.
  bool empty() const { return parts_.empty(); }

  // Returns whether all bytes have the gradients of these devices, and of no others. O(parts).
  bool AreAll(DeviceSet devices) const {
    return !empty() && parts_.AreAll([&](DeviceSet own) { return own == devices; });
  }

  // Returns the devices that both have somewhere in the range. O(parts).
  DeviceSet InBoth(ByteRange range, const GradientParts& other) const {
    DeviceSet both = 0;
    parts_.Visit(range, [&](ByteRange part, DeviceSet own) {
      other.parts_.Visit(part, [&](ByteRange, DeviceSet others) { both |= own & others; });
    });
    return both;
  }

  // Adds the gradients of another device's range, or takes them in place of the own. O(parts).
  void Add(ByteRange range, const GradientParts& other) {
    other.parts_.Visit(range, [&](ByteRange part, DeviceSet devices) {
      parts_.Change(part, [&](DeviceSet& own) { own |= devices; });
    });
  }
  void Replace(ByteRange range, const GradientParts& other) {
    other.parts_.Visit(range, [&](ByteRange part, DeviceSet devices) {
      parts_.Change(part, [&](DeviceSet& own) { own = devices; });
    });
  }

 private:
  ByteValues<DeviceSet> parts_;  // without gaps
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_
