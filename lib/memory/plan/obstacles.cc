// SPDX-License-Identifier: Apache-2.0
// Joins obstacles, and computes the lower bound that their holes imply.
#include "lib/memory/plan/obstacles.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>

#include "lib/base/arithmetic.h"

namespace tidepool::plan {
namespace {

constexpr std::size_t kMostThresholds = 64;

// Addresses that no obstacle takes at any time.
struct Hole {
  std::int64_t begin;
  std::int64_t end;
};

class HoleBound {
 public:
  explicit HoleBound(const Instance& instance) : instance_(instance) {
    FindHoles();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(instance.size.size()); ++i) {
      if (!IsBar(i)) members_.push_back(i);
    }
    std::sort(members_.begin(), members_.end(),
              [&](std::int32_t a, std::int32_t b) { return instance.size[a] > instance.size[b]; });
  }

  // Returns the largest bound over a sample of thresholds.
  std::int64_t Find() const {
    const std::vector<std::int64_t> thresholds = Thresholds();
    const std::size_t count = std::min(thresholds.size(), kMostThresholds);
    std::int64_t bound = instance_.obstacle_top;
    for (std::size_t i = 0; i < count; ++i) {
      bound = std::max(bound, BoundOf(thresholds[i * thresholds.size() / count]));
    }
    return bound;
  }

 private:
  bool IsBar(std::int32_t index) const {
    return index >= instance_.count() && instance_.LivesThroughout(index);
  }

  void FindHoles() {
    std::vector<Hole> bars;
    for (std::int32_t i = instance_.count(); i < instance_.count() + instance_.obstacles(); ++i) {
      const std::int64_t offset = instance_.obstacle_offset[i - instance_.count()];
      if (IsBar(i)) bars.push_back({offset, offset + instance_.size[i]});
    }
    std::sort(bars.begin(), bars.end(),
              [](const Hole& a, const Hole& b) { return a.begin < b.begin; });
    std::int64_t top = 0;
    for (const Hole& bar : bars) {
      if (bar.begin > top) holes_.push_back({top, bar.begin});
      top = bar.end;
    }
    holes_.push_back({top, std::numeric_limits<std::int64_t>::max()});
  }

  // Returns the least size, and for each hole the least size that it cannot hold, ascending.
  std::vector<std::int64_t> Thresholds() const {
    std::vector<std::int64_t> thresholds;
    if (members_.empty()) return thresholds;
    thresholds.push_back(instance_.size[members_.back()]);
    for (const Hole& hole : holes_) {
      const auto larger = std::partition_point(
          members_.begin(), members_.end(),
          [&](std::int32_t i) { return instance_.size[i] > hole.end - hole.begin; });
      if (larger != members_.begin()) thresholds.push_back(instance_.size[*(larger - 1)]);
    }
    std::sort(thresholds.begin(), thresholds.end());
    thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
    return thresholds;
  }

  // Returns the height that the members of at least `least` units need.
  std::int64_t BoundOf(std::int64_t least) const {
    std::vector<std::int64_t> load(instance_.sections() + 1);
    std::int64_t unit = 0;
    std::int64_t alignment = std::numeric_limits<std::int64_t>::max();
    for (const std::int32_t i : members_) {
      if (instance_.size[i] < least) break;
      load[instance_.first[i]] += instance_.size[i];
      load[instance_.end[i]] -= instance_.size[i];
      unit = std::gcd(unit, instance_.size[i]);
      alignment = std::min(alignment, i < instance_.count() ? instance_.alignment[i] : 1);
    }
    if (unit == 0) return 0;  // no member is so large
    std::partial_sum(load.begin(), load.end(), load.begin());
    std::int64_t need = *std::max_element(load.begin(), load.end());
    for (const Hole& hole : holes_) {
      const std::int64_t begin = AlignUp(hole.begin, alignment);
      if (begin > hole.end || hole.end - begin < least) continue;
      const std::int64_t room = (hole.end - begin) / unit * unit;
      // Some member ends in this hole or above it.
      if (need <= room) return begin + std::max(need, least);
      need -= room;
    }
    return 0;  // not reached: the last hole has no end
  }

  const Instance& instance_;
  std::vector<Hole> holes_;            // ascending
  std::vector<std::int32_t> members_;  // all except obstacles that live throughout, largest first
};

}  // namespace

std::vector<Obstacle> JoinTouching(std::vector<Obstacle> obstacles) {
  std::sort(obstacles.begin(), obstacles.end(), [](const Obstacle& a, const Obstacle& b) {
    return std::tie(a.first, a.end, a.offset) < std::tie(b.first, b.end, b.offset);
  });
  std::vector<Obstacle> joined;
  for (const Obstacle& next : obstacles) {
    const bool touches = !joined.empty() && joined.back().first == next.first &&
                         joined.back().end == next.end && joined.back().top == next.offset;
    if (touches) {
      joined.back().top = next.top;
    } else {
      joined.push_back(next);
    }
  }
  return joined;
}

std::vector<Obstacle> Join(std::vector<Obstacle> obstacles, std::int32_t sections,
                           std::int64_t least) {
  const auto is_bar = [&](const Obstacle& obstacle) {
    return obstacle.first == 0 && obstacle.end == sections;
  };
  const auto others = std::stable_partition(obstacles.begin(), obstacles.end(), is_bar);
  std::sort(obstacles.begin(), others,
            [](const Obstacle& a, const Obstacle& b) { return a.offset < b.offset; });
  std::vector<Obstacle> joined;
  for (auto bar = obstacles.begin(); bar != others; ++bar) {
    const std::int64_t gap = joined.empty() ? bar->offset : bar->offset - joined.back().top;
    if (!joined.empty() && (gap == 0 || gap < least)) {
      joined.back().top = bar->top;
    } else {
      joined.push_back(*bar);
    }
  }
  joined.insert(joined.end(), others, obstacles.end());
  return joined;
}

std::int64_t BoundByHoles(const Instance& instance) { return HoleBound(instance).Find(); }

}  // namespace tidepool::plan
