// SPDX-License-Identifier: Apache-2.0
// The gradients in the values of a datum on one device: for each of its bytes, the devices of which
// the sum has the gradient. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "lib/training/schedule/steps/byte_ranges.h"
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
    parts_.clear();
    parts_[0] = {bytes, devices};
  }

  // Whether no task has written the data.
  bool empty() const { return parts_.empty(); }

  // Returns whether all bytes have the gradients of these devices, and of no others. O(parts).
  bool AreAll(DeviceSet devices) const {
    return !empty() && std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) {
      return part.second.devices == devices;
    });
  }

  // Returns the devices that both have somewhere in the range. O(parts).
  DeviceSet InBoth(ByteRange range, const GradientParts& other) const {
    DeviceSet both = 0;
    for (auto own = From(range.begin); own != parts_.end() && own->first < range.end; ++own) {
      const std::int64_t begin = std::max(own->first, range.begin);
      const std::int64_t end = std::min(own->second.end, range.end);
      for (auto at = other.From(begin); at != other.parts_.end() && at->first < end; ++at) {
        both |= own->second.devices & at->second.devices;
      }
    }
    return both;
  }

  // Adds the gradients of another device's range, or takes them in place of the own. O(parts).
  void Add(ByteRange range, const GradientParts& other) { Take(range, other, /*adds=*/true); }
  void Replace(ByteRange range, const GradientParts& other) { Take(range, other, /*adds=*/false); }

 private:
  struct Part {
    std::int64_t end = 0;
    DeviceSet devices = 0;
  };
  using Parts = std::map<std::int64_t, Part>;  // by begin, without gaps

  // Returns the part with the byte `position`.
  Parts::const_iterator From(std::int64_t position) const {
    const auto after = parts_.upper_bound(position);
    return after == parts_.begin() ? after : std::prev(after);
  }

  void CutAt(std::int64_t position) {
    const auto after = parts_.upper_bound(position);
    if (after == parts_.begin()) return;
    const auto before = std::prev(after);
    if (before->first == position || before->second.end <= position) return;
    parts_.emplace_hint(after, position, before->second);
    before->second.end = position;
  }

  void Take(ByteRange range, const GradientParts& other, bool adds) {
    CutAt(range.begin);
    CutAt(range.end);
    for (auto at = other.From(range.begin); at != other.parts_.end() && at->first < range.end;
         ++at) {
      const std::int64_t begin = std::max(at->first, range.begin);
      const std::int64_t end = std::min(at->second.end, range.end);
      CutAt(begin);
      CutAt(end);
      for (auto own = parts_.lower_bound(begin); own != parts_.end() && own->first < end; ++own) {
        own->second.devices = at->second.devices | (adds ? own->second.devices : 0);
      }
    }
  }

  Parts parts_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_GRADIENT_PARTS_H_
