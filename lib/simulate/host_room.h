// The memory of the host for what was sent out. Not thread-safe.
#ifndef TIDEPOOL_LIB_SIMULATE_HOST_ROOM_H_
#define TIDEPOOL_LIB_SIMULATE_HOST_ROOM_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "lib/simulate/memory_curve.h"

namespace tidepool::simulate {

class HostRoom {
 public:
  explicit HostRoom(std::int64_t limit) : limit_(limit) {}

  // Takes `bytes` for a copy out that starts at `start`, no earlier than that of the last copy out
  // for which there was room. False, and nothing is taken, when there is none then. O(log n).
  bool Take(double start, std::int64_t bytes) {
    const std::int64_t kept = taken_ - fetched_.Until(start) - freed_.Until(start);
    if (bytes > limit_ - kept) return false;
    taken_ += bytes;
    curve_.Add(start, bytes);
    return true;
  }

  // Three ways of giving it back. The ends of copies in ascend,
  void GiveBackFetched(double end, std::int64_t bytes) {
    fetched_.Add(end, bytes);
    curve_.Add(end, -bytes);
  }
  // as do the times at which data is freed,
  void GiveBackFreed(double seconds, std::int64_t bytes) {
    freed_.Add(seconds, bytes);
    curve_.Add(seconds, -bytes);
  }
  // and before the end of a copy out that was in vain no other begins.
  void GiveBackUnused(double end, std::int64_t bytes) {
    taken_ -= bytes;
    curve_.Add(end, -bytes);
  }

  MemoryCurve& curve() { return curve_; }

 private:
  // Sums of what was given back, by ascending times.
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

#endif  // TIDEPOOL_LIB_SIMULATE_HOST_ROOM_H_
