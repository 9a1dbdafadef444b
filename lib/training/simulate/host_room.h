// SPDX-License-Identifier: Apache-2.0
// The host memory for offloaded data. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_HOST_ROOM_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_HOST_ROOM_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "lib/training/simulate/memory_curve.h"

namespace tidepool::simulate {

class HostRoom {
 public:
  explicit HostRoom(std::int64_t limit) : limit_(limit) {}

  // Takes `bytes` for an offload that starts at `start`, not before the last successful one.
  // Returns false, and takes nothing, when there is no room at that time. O(log n).
  bool Take(double start, std::int64_t bytes) {
    const std::int64_t kept = taken_ - fetched_.Until(start) - freed_.Until(start);
    if (bytes > limit_ - kept) return false;
    taken_ += bytes;
    curve_.Add(start, bytes);
    return true;
  }

  // Gives memory back after a prefetch. Each of the three GiveBack functions needs ascending times:
  // prefetches end in ascending order.
  void GiveBackFetched(double end, std::int64_t bytes) {
    fetched_.Add(end, bytes);
    curve_.Add(end, -bytes);
  }
  // Gives memory back when data is freed. Frees happen in ascending order.
  void GiveBackFreed(double seconds, std::int64_t bytes) {
    freed_.Add(seconds, bytes);
    curve_.Add(seconds, -bytes);
  }
  // Gives memory back after an offload that was not needed. No other offload begins before it ends.
  void GiveBackUnused(double end, std::int64_t bytes) {
    taken_ -= bytes;
    curve_.Add(end, -bytes);
  }

  MemoryCurve& curve() { return curve_; }

 private:
  // Sums of returned bytes, by ascending times.
  class Sums {
   public:
    void Add(double seconds, std::int64_t bytes) {
      sums_.push_back({seconds, bytes + (sums_.empty() ? 0 : sums_.back().bytes)});
    }
    std::int64_t Until(double seconds) const {
      const auto after = std::upper_bound(
          sums_.begin(), sums_.end(), seconds,
          [](double limit, const MemoryPoint& point) { return limit < point.seconds; });
      return after == sums_.begin() ? 0 : std::prev(after)->bytes;
    }

   private:
    std::vector<MemoryPoint> sums_;
  };

  std::int64_t limit_;
  std::int64_t taken_ = 0;
  Sums fetched_;
  Sums freed_;
  MemoryCurve curve_;
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_HOST_ROOM_H_
