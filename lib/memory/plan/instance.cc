// SPDX-License-Identifier: Apache-2.0
// Splits a problem into instances, and their time into sections.
#include "lib/memory/plan/instance.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/obstacles.h"
#include "lib/memory/plan/reuse_times.h"
#include "lib/memory/plan/stream_conflicts.h"

namespace tidepool::plan {
namespace {

// The times at which buffers begin or end, each once, ascending.
class Times {
 public:
  Times(const PlanProblem& problem, std::span<const std::uint32_t> members) {
    times_.reserve(2 * members.size());
    for (const std::uint32_t i : members) {
      times_.push_back(problem.buffers[i].lower);
      times_.push_back(problem.buffers[i].upper);
    }
    const auto [least, greatest] = std::minmax_element(times_.begin(), times_.end());
    first_ = *least;
    // Steps of a schedule lie so close that a table of all is faster than a sort.
    const auto range = static_cast<std::uint64_t>(*greatest) - static_cast<std::uint64_t>(first_);
    if (range < 2 * times_.size()) {
      Count(static_cast<std::size_t>(range) + 1);
    } else {
      std::sort(times_.begin(), times_.end());
      times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    }
  }

  std::size_t count() const { return times_.size(); }
  // Returns the number of an element.
  std::size_t IndexOf(std::int64_t time) const {
    if (!numbers_.empty()) return numbers_[static_cast<std::size_t>(time - first_)];
    return static_cast<std::size_t>(std::lower_bound(times_.begin(), times_.end(), time) -
                                    times_.begin());
  }

 private:
  void Count(std::size_t range) {
    numbers_.resize(range);
    for (const std::int64_t time : times_) numbers_[static_cast<std::size_t>(time - first_)] = 1;
    times_.clear();
    for (std::size_t i = 0; i < range; ++i) {
      const bool is_time = numbers_[i] != 0;
      numbers_[i] = static_cast<std::uint32_t>(times_.size());
      if (is_time) times_.push_back(first_ + static_cast<std::int64_t>(i));
    }
  }

  std::vector<std::int64_t> times_;
  std::int64_t first_ = 0;
  std::vector<std::uint32_t> numbers_;  // by time from the first one on; empty: there are too many
};

// The sections of buffers. A section ends before the set of live buffers shrinks.
class Sections {
 public:
  Sections(const PlanProblem& problem, std::span<const std::uint32_t> members)
      : times_(problem, members), before_(times_.count()) {
    std::vector<bool> begins(times_.count());
    std::vector<bool> ends(times_.count());
    for (const std::uint32_t i : members) {
      begins[times_.IndexOf(problem.buffers[i].lower)] = true;
      ends[times_.IndexOf(problem.buffers[i].upper)] = true;
    }
    bool grew = false;
    for (std::size_t t = 0; t < times_.count(); ++t) {
      if (ends[t] && grew) ++count_;
      before_[t] = count_;
      grew = begins[t] || (grew && !ends[t]);
    }
  }

  std::int32_t count() const { return count_; }
  // Returns the number of sections before the time at which a buffer begins or ends.
  std::int32_t Before(std::int64_t time) const { return before_[times_.IndexOf(time)]; }

 private:
  Times times_;
  std::vector<std::int32_t> before_;  // by time
  std::int32_t count_ = 0;
};

double Duration(const PlanBuffer& buffer) {
  return static_cast<double>(buffer.upper) - static_cast<double>(buffer.lower);
}

std::int64_t Unit(const PlanProblem& problem, std::span<const std::uint32_t> members) {
  std::int64_t unit = 0;
  for (const std::uint32_t i : members) {
    unit = std::gcd(unit, problem.buffers[i].bytes);
    if (IsFixed(problem.buffers[i])) {
      unit = std::gcd(unit, problem.buffers[i].offset);
    } else if (problem.buffers[i].alignment > 1) {
      unit = std::gcd(unit, problem.buffers[i].alignment);
    }
  }
  return unit;
}

std::vector<std::int64_t> Load(const Instance& instance, std::int32_t sections,
                               const std::vector<std::int64_t>& size) {
  std::vector<std::int64_t> load(sections + 1);
  for (std::size_t i = 0; i < size.size(); ++i) {
    load[instance.first[i]] += size[i];
    load[instance.end[i]] -= size[i];
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  load.pop_back();
  return load;
}

// Returns the largest power of two that divides all offsets.
std::int64_t CommonAlignment(const Instance& instance) {
  std::int64_t common = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t alignment : instance.alignment) common = std::min(common, alignment);
  for (const std::int64_t offset : instance.obstacle_offset) {
    if (offset > 0) common = std::min(common, offset & -offset);
  }
  return common;
}

// Where all offsets are multiples of an alignment, each buffer except the highest takes up a
// multiple of it.
std::int64_t LowerBound(const Instance& instance) {
  const std::int64_t load = *std::max_element(instance.load.begin(), instance.load.end());
  if (instance.count() == 0) return instance.obstacle_top;
  const std::int64_t common = CommonAlignment(instance);
  if (common == 1) return load;
  std::vector<std::int64_t> rounded(instance.size.size());
  std::int64_t largest_tail = 0;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    rounded[i] = AlignUp(instance.size[i], common);
    largest_tail = std::max(largest_tail, rounded[i] - instance.size[i]);
  }
  const std::vector<std::int64_t> taken = Load(instance, instance.sections(), rounded);
  return std::max(load, *std::max_element(taken.begin(), taken.end()) - largest_tail);
}

// Returns a bound that holds however few buffers overlap.
std::int64_t BoundOfOne(const Instance& instance) {
  std::int64_t bound = instance.obstacle_top;
  for (const std::int64_t size : instance.size) bound = std::max(bound, size);
  return bound;
}

// Joins obstacles that leave no room between them. `least` is the size of the smallest buffer.
std::vector<Obstacle> Joined(std::vector<Obstacle> obstacles, std::int32_t sections,
                             std::int64_t least) {
  obstacles = JoinTouching(std::move(obstacles));
  for (const Obstacle& obstacle : obstacles) {
    // A buffer that lives only part of the time may lie in a hole as well.
    if (obstacle.first > 0 || obstacle.end < sections) {
      least = std::min(least, obstacle.top - obstacle.offset);
    }
  }
  return Join(std::move(obstacles), sections, least);
}

void AddObstacles(const std::vector<Obstacle>& obstacles, Instance& instance) {
  for (const Obstacle& obstacle : obstacles) {
    instance.first.push_back(obstacle.first);
    instance.end.push_back(obstacle.end);
    instance.size.push_back(obstacle.top - obstacle.offset);
    instance.obstacle_offset.push_back(obstacle.offset);
    instance.obstacle_top = std::max(instance.obstacle_top, obstacle.top);
  }
}

Instance ToInstance(const PlanProblem& problem, std::span<const std::uint32_t> members,
                    bool has_streams) {
  Instance instance;
  instance.has_streams = has_streams;
  instance.unit = Unit(problem, members);
  const Sections sections(problem, members);
  std::vector<Obstacle> obstacles;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::uint32_t i : members) {
    const PlanBuffer& buffer = problem.buffers[i];
    if (IsFixed(buffer)) {
      instance.obstacle_buffer.push_back(i);
      obstacles.push_back({sections.Before(buffer.lower), sections.Before(buffer.upper),
                           buffer.offset / instance.unit,
                           (buffer.offset + buffer.bytes) / instance.unit});
      continue;
    }
    least = std::min(least, buffer.bytes / instance.unit);
    instance.buffer.push_back(i);
    instance.first.push_back(sections.Before(buffer.lower));
    instance.end.push_back(sections.Before(buffer.upper));
    instance.size.push_back(buffer.bytes / instance.unit);
    instance.alignment.push_back(std::max<std::int64_t>(1, buffer.alignment / instance.unit));
    instance.duration.push_back(Duration(buffer));
    instance.is_aligned &= instance.alignment.back() == 1;
  }
  // Obstacles of several streams stay apart: each has conflicts of its own.
  if (!has_streams) obstacles = Joined(std::move(obstacles), sections.count(), least);
  AddObstacles(obstacles, instance);
  instance.load = Load(instance, sections.count(), instance.size);
  instance.lower_bound = has_streams ? BoundOfOne(instance) : LowerBound(instance);
  if (instance.obstacles() > 0 && !has_streams) {
    instance.lower_bound = std::max(instance.lower_bound, BoundByHoles(instance));
  }
  return instance;
}

// `has_streams`: lifetimes are those of WithLongestLives.
std::vector<Instance> Split(const PlanProblem& problem, bool has_streams) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return buffers[a].lower < buffers[b].lower;
  });
  std::vector<Instance> instances;
  for (std::size_t begin = 0; begin < order.size();) {
    std::int64_t until = buffers[order[begin]].upper;
    std::size_t end = begin + 1;
    for (; end < order.size() && buffers[order[end]].lower < until; ++end) {
      until = std::max(until, buffers[order[end]].upper);
    }
    instances.push_back(
        ToInstance(problem, std::span(order).subspan(begin, end - begin), has_streams));
    begin = end;
  }
  return instances;
}

PlanProblem WithLongestLives(const PlanProblem& problem, const ReuseTimes& reuse) {
  PlanProblem longest = problem;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    longest.buffers[i].upper = reuse.ForAll(problem.buffers[i]);
  }
  return longest;
}

}  // namespace

std::vector<Instance> ToInstances(const PlanProblem& problem) {
  if (!HasSeveralStreams(problem)) return Split(problem, false);
  const ReuseTimes reuse(problem);
  std::vector<Instance> instances = Split(WithLongestLives(problem, reuse), true);
  for (Instance& instance : instances) {
    std::vector<std::uint32_t> members = instance.buffer;
    members.insert(members.end(), instance.obstacle_buffer.begin(), instance.obstacle_buffer.end());
    instance.conflicts = StreamConflicts(problem, reuse, members);
    for (std::size_t i = 0; i < instance.buffer.size(); ++i) {
      instance.duration[i] = Duration(problem.buffers[instance.buffer[i]]);
    }
  }
  return instances;
}

Instance ToInstance(const std::vector<LivingBuffer>& buffers, std::span<const std::size_t> members,
                    std::int64_t unit) {
  Instance instance;
  instance.unit = unit;
  PlanProblem all;  // each life as a buffer
  for (const std::size_t i : members) {
    for (const Life& life : buffers[i].lives) {
      all.buffers.push_back({.lower = life.lower, .upper = life.upper});
    }
  }
  if (all.buffers.empty()) return instance;
  std::vector<std::uint32_t> numbers(all.buffers.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  const Sections sections(all, numbers);
  std::vector<std::int64_t> changes(static_cast<std::size_t>(sections.count()) + 1);
  for (const std::size_t i : members) {
    const std::int64_t size = AlignUp(buffers[i].bytes, unit) / unit;
    Lives& lives = instance.lives.emplace_back();
    for (const Life& life : buffers[i].lives) {
      lives.push_back({sections.Before(life.lower), sections.Before(life.upper)});
      changes[lives.back().lower] += size;
      changes[lives.back().upper] -= size;
    }
    instance.buffer.push_back(static_cast<std::uint32_t>(i));
    instance.first.push_back(static_cast<std::int32_t>(lives.front().lower));
    instance.end.push_back(static_cast<std::int32_t>(lives.back().upper));
    instance.size.push_back(size);
  }
  instance.alignment.assign(members.size(), 1);
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  changes.pop_back();
  instance.load = std::move(changes);
  instance.lower_bound = *std::max_element(instance.load.begin(), instance.load.end());
  return instance;
}

bool HasSeveralStreams(const PlanProblem& problem) {
  return std::ranges::any_of(problem.buffers, [&](const PlanBuffer& buffer) {
    return buffer.stream != problem.buffers.front().stream || buffer.free_stream != buffer.stream;
  });
}

std::int64_t Height(const Instance& instance, const Offsets& offsets) {
  std::int64_t height = instance.obstacle_top;
  for (std::int32_t i = 0; i < instance.count(); ++i) {
    height = std::max(height, offsets[i] + instance.size[i]);
  }
  return height;
}

std::vector<double> RangeMaxima(const std::vector<double>& values,
                                const std::vector<std::int32_t>& first,
                                const std::vector<std::int32_t>& end) {
  // Level k has the maxima of 2^k values each; two of them, which may overlap, cover any range.
  std::vector<std::vector<double>> levels = {values};
  for (std::size_t half = 1; 2 * half <= values.size(); half *= 2) {
    const std::vector<double>& below = levels.back();
    std::vector<double> level(values.size() - 2 * half + 1);
    for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + half]);
    levels.push_back(std::move(level));
  }
  std::vector<double> maxima(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t length = std::bit_floor(static_cast<std::size_t>(end[i] - first[i]));
    const std::vector<double>& level = levels[std::countr_zero(length)];
    maxima[i] = std::max(level[first[i]], level[end[i] - length]);
  }
  return maxima;
}

}  // namespace tidepool::plan
