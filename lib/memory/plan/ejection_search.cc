// SPDX-License-Identifier: Apache-2.0
// Ejection search: removes the cheapest buffers that are in the way of a new one.
#include "lib/memory/plan/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/placed_lists.h"

namespace tidepool::plan {
namespace {

constexpr float kTabuFactor = 1.5F;
constexpr unsigned kAnyUnplacedOneIn = 4;  // instead of the largest one

// xorshift64: a few instructions, and equal numbers on every machine.
class Xorshift {
 public:
  explicit Xorshift(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U | 1U) {}

  std::uint32_t Below(std::uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 32) * limit >> 32);
  }

 private:
  std::uint64_t state_;
};

// The cheapest offset so far; each of several equally cheap offsets is equally likely.
class CheapestOffset {
 public:
  static constexpr float kNone =
      std::numeric_limits<float>::infinity();  // the cost without an offset

  explicit CheapestOffset(Xorshift& random) : random_(random) {}

  // Offers the offsets in [from, to] at one cost. A free range offers its low end.
  void Offer(std::int64_t from, std::int64_t to, float cost, std::int64_t alignment) {
    from = AlignUp(from, alignment);
    to &= -alignment;
    if (from > to) return;
    if (cost < cost_) ties_ = 0;
    if (cost > cost_ || (cost == 0 && ties_ > 0)) return;
    cost_ = cost;
    if (random_.Below(++ties_) == 0) offset_ = cost > 0 && random_.Below(2) == 0 ? to : from;
  }

  std::int64_t offset() const { return offset_; }
  float cost() const { return cost_; }

 private:
  Xorshift& random_;
  std::int64_t offset_ = 0;
  float cost_ = kNone;
  std::uint32_t ties_ = 0;
};

// Writes the entries that overlap a buffer in time. Few are left after the first loop, which has no
// branches that a processor could not predict.
void FindOverlapping(const Instance& instance, std::int32_t buffer,
                     const std::vector<PlacedLists::Entry>& entries,
                     std::vector<PlacedLists::Entry>& overlapping) {
  std::size_t count = 0;
  overlapping.resize(entries.size());
  for (const PlacedLists::Entry& entry : entries) {
    overlapping[count] = entry;
    count += instance.ShareSection(entry.buffer, buffer) ? 1 : 0;
  }
  overlapping.resize(count);
  if (instance.IsBySections()) return;
  std::erase_if(overlapping, [&](const PlacedLists::Entry& entry) {
    return !instance.Overlap(entry.buffer, buffer);
  });
}

// The placed buffers and obstacles that a new buffer would overlap, while its offset grows. They
// count from the offset at which the new buffer touches them from below, up to their top.
class OverlapSweep {
 public:
  // `overlapping` has the lists of all that the new buffer overlaps in time.
  OverlapSweep(const Instance& instance, const PlacedLists::Lists& overlapping, std::int64_t size)
      : instance_(instance),
        size_(size),
        reached_(overlapping.by_offset.begin()),
        reached_end_(overlapping.by_offset.end()),
        passed_(overlapping.by_top.begin()),
        passed_end_(overlapping.by_top.end()) {}

  // Moves the new buffer up to `offset`. `cost_of` returns the cost of a placed buffer.
  template <typename CostOf>
  void MoveTo(std::int64_t offset, const CostOf& cost_of) {
    for (; reached_ != reached_end_ && reached_->at - size_ < offset; ++reached_) {
      Add(reached_->buffer, cost_of);
    }
    for (; passed_ != passed_end_ && passed_->at <= offset; ++passed_) {
      Remove(passed_->buffer, cost_of);
    }
    if (buffers_ == 0) cost_ = 0;  // without a rounding error
  }

  // Returns the next offset at which the overlap changes, or `end` without a change before it.
  std::int64_t NextChange(std::int64_t end) const {
    if (reached_ != reached_end_) end = std::min(end, reached_->at - size_ + 1);
    if (passed_ != passed_end_) end = std::min(end, passed_->at);
    return end;
  }

  bool meets_obstacle() const { return obstacles_ > 0; }
  // Returns the sum over the placed buffers.
  float cost() const { return static_cast<float>(cost_); }

 private:
  using Iterator = decltype(PlacedLists::Lists::by_offset)::const_iterator;

  template <typename CostOf>
  void Add(std::int32_t placed, const CostOf& cost_of) {
    if (placed >= instance_.count()) {
      ++obstacles_;
    } else {
      cost_ += cost_of(placed);
      ++buffers_;
    }
  }
  template <typename CostOf>
  void Remove(std::int32_t placed, const CostOf& cost_of) {
    if (placed >= instance_.count()) {
      --obstacles_;
    } else {
      cost_ -= cost_of(placed);
      --buffers_;
    }
  }

  const Instance& instance_;
  const std::int64_t size_;
  Iterator reached_;
  const Iterator reached_end_;
  Iterator passed_;
  const Iterator passed_end_;
  double cost_ = 0;
  std::int32_t buffers_ = 0;
  std::int32_t obstacles_ = 0;
};

class Ejection {
 public:
  Ejection(const Instance& instance, std::int64_t capacity, const Offsets& start,
           const EjectionOptions& options)
      : instance_(instance),
        capacity_(capacity),
        options_(options),
        random_(options.seed),
        offsets_(Within(instance, capacity, start)),
        lists_(instance, offsets_),
        own_weights_(WeightsOf(instance, options)),
        weights_(own_weights_),
        tabu_until_(start.size(), 0) {
    for (std::int32_t i = 0; i < instance.count(); ++i) {
      if (offsets_[i] == kUnplaced) Leave(i);
    }
  }

  FullestPlan Run(budget::Budget& budget) {
    while (!unplaced_.empty() && budget.Take()) {
      ++step_;
      if (!PlaceOne(TakeUnplaced())) break;
    }
    NoteFullest();
    return std::move(fullest_);
  }

 private:
  static std::vector<float> WeightsOf(const Instance& instance, const EjectionOptions& options) {
    std::vector<float> weights;
    weights.reserve(instance.size.size());
    for (std::int32_t i = 0; i < instance.count(); ++i) {
      weights.push_back(
          static_cast<float>(std::pow(static_cast<double>(instance.size[i]), options.size_power)));
    }
    return weights;
  }

  static Offsets Within(const Instance& instance, std::int64_t capacity, Offsets offsets) {
    for (std::int32_t i = 0; i < instance.count(); ++i) {
      if (offsets[i] + instance.size[i] > capacity) offsets[i] = kUnplaced;
    }
    return offsets;
  }

  void Leave(std::int32_t buffer) {
    offsets_[buffer] = kUnplaced;
    unplaced_.push_back(buffer);
    unplaced_size_ += instance_.size[buffer];
  }

  // A copy for each step that places a buffer would take longer than the step.
  void NoteFullest() {
    if (unplaced_size_ < fullest_.unplaced_size) fullest_ = {offsets_, unplaced_size_};
  }

  std::int32_t TakeUnplaced() {
    std::size_t taken = 0;
    if (random_.Below(kAnyUnplacedOneIn) == 0) {
      taken = random_.Below(static_cast<std::uint32_t>(unplaced_.size()));
    } else {
      for (std::size_t i = 1; i < unplaced_.size(); ++i) {
        if (instance_.size[unplaced_[i]] > instance_.size[unplaced_[taken]]) taken = i;
      }
    }
    std::swap(unplaced_[taken], unplaced_.back());
    const std::int32_t buffer = unplaced_.back();
    unplaced_.pop_back();
    return buffer;
  }

  // Places the buffer at the cheapest offset. Returns false when it fits nowhere between the
  // obstacles.
  bool PlaceOne(std::int32_t buffer) {
    const CheapestOffset cheapest = FindOffset(buffer);
    if (cheapest.cost() == CheapestOffset::kNone) return false;
    const std::int64_t offset = cheapest.offset();
    if (cheapest.cost() > 0) {
      NoteFullest();
      weights_[buffer] += own_weights_[buffer];
      Eject(offset, offset + instance_.size[buffer]);
    }
    offsets_[buffer] = offset;
    unplaced_size_ -= instance_.size[buffer];
    lists_.Insert(buffer, offset);
    tabu_until_[buffer] = step_ + options_.tenure +
                          random_.Below(static_cast<std::uint32_t>(options_.tenure_spread) + 1);
    return true;
  }

  float Cost(std::int32_t buffer) const {
    return tabu_until_[buffer] > step_ ? weights_[buffer] * kTabuFactor : weights_[buffer];
  }

  // Returns the cheapest offset of all, by a sweep up the addresses.
  CheapestOffset FindOffset(std::int32_t buffer) {
    const auto cost_of = [this](std::int32_t placed) { return Cost(placed); };
    const std::int64_t end = capacity_ - instance_.size[buffer] + 1;
    const PlacedLists::Lists& around = lists_.Around(buffer);
    FindOverlapping(instance_, buffer, around.by_offset, overlapping_.by_offset);
    FindOverlapping(instance_, buffer, around.by_top, overlapping_.by_top);
    OverlapSweep sweep(instance_, overlapping_, instance_.size[buffer]);
    CheapestOffset cheapest(random_);
    std::int64_t from = instance_.FloorOf(buffer);
    while (from < end && cheapest.cost() != 0) {
      sweep.MoveTo(from, cost_of);
      const std::int64_t next = sweep.NextChange(end);
      if (!sweep.meets_obstacle()) {
        cheapest.Offer(from, next - 1, sweep.cost(), instance_.alignment[buffer]);
      }
      from = next;
    }
    return cheapest;
  }

  // Removes the buffers in [from, to) that overlap the last one of FindOffset.
  void Eject(std::int64_t from, std::int64_t to) {
    for (const auto& [offset, other] : overlapping_.by_offset) {
      if (offset >= to) break;
      if (offset + instance_.size[other] <= from) continue;
      lists_.Remove(other, offsets_[other]);
      Leave(other);
    }
  }

  const Instance& instance_;
  const std::int64_t capacity_;
  const EjectionOptions options_;
  Xorshift random_;
  Offsets offsets_;
  PlacedLists lists_;
  const std::vector<float> own_weights_;  // of the start
  std::vector<float> weights_;
  std::vector<std::int64_t> tabu_until_;
  std::vector<std::int32_t> unplaced_;
  std::int64_t unplaced_size_ = 0;
  FullestPlan fullest_ = {{}, std::numeric_limits<std::int64_t>::max()};
  PlacedLists::Lists overlapping_;  // of the last FindOffset
  std::int64_t step_ = 0;
};

}  // namespace

FullestPlan SearchByEjection(const Instance& instance, std::int64_t capacity, const Offsets& start,
                             const EjectionOptions& options, budget::Budget& budget) {
  return Ejection(instance, capacity, start, options).Run(budget);
}

}  // namespace tidepool::plan
