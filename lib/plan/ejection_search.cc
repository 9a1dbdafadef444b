#include "lib/plan/ejection_search.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lib/plan/placed_lists.h"

namespace tidepool::plan {
namespace {

constexpr std::int64_t kUnplaced = -1;
constexpr float kTabuFactor = 1.5F;
constexpr unsigned kAnyUnplacedOneIn = 4;  // instead of the largest one

// xorshift64: a few instructions, and equal numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U | 1U) {}

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
class CheapestPlace {
 public:
  static constexpr float kNone =
      std::numeric_limits<float>::infinity();  // the cost without a place

  explicit CheapestPlace(Random& random) : random_(random) {}

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
  Random& random_;
  std::int64_t offset_ = 0;
  float cost_ = kNone;
  std::uint32_t ties_ = 0;
};

class Ejection {
 public:
  Ejection(const Instance& instance, std::int64_t capacity, const Offsets& start,
           const EjectionOptions& options)
      : instance_(instance),
        capacity_(capacity),
        tenure_(options.tenure),
        random_(options.seed),
        offsets_(Within(instance, capacity, start)),
        lists_(instance, offsets_),
        weights_(start.size(), 1),
        tabu_until_(start.size(), 0) {
    for (std::int32_t i = 0; i < instance.count(); ++i) {
      if (offsets_[i] == kUnplaced) unplaced_.push_back(i);
    }
  }

  bool Run(Budget& budget) {
    while (!unplaced_.empty()) {
      if (!budget.Step()) return false;
      ++step_;
      if (!PlaceOne(TakeUnplaced())) return false;
    }
    return true;
  }

  Offsets TakeOffsets() { return std::move(offsets_); }

 private:
  static Offsets Within(const Instance& instance, std::int64_t capacity, Offsets offsets) {
    for (std::int32_t i = 0; i < instance.count(); ++i) {
      if (offsets[i] + instance.size[i] > capacity) offsets[i] = kUnplaced;
    }
    return offsets;
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
    const CheapestPlace place = FindPlace(buffer);
    if (place.cost() == CheapestPlace::kNone) return false;
    const std::int64_t offset = place.offset();
    if (place.cost() > 0) {
      weights_[buffer] += 1;
      Eject(buffer, offset, offset + instance_.size[buffer]);
    }
    offsets_[buffer] = offset;
    lists_.Insert(buffer, offset);
    tabu_until_[buffer] = step_ + tenure_ + random_.Below(static_cast<std::uint32_t>(tenure_) + 1);
    return true;
  }

  float Cost(std::int32_t buffer) const {
    return tabu_until_[buffer] > step_ ? weights_[buffer] * kTabuFactor : weights_[buffer];
  }

  // Walks up the addresses. A placed buffer costs from where the new one would touch it from below
  // on, up to its top.
  CheapestPlace FindPlace(std::int32_t buffer) {
    const PlacedLists::Lists& lists = lists_.Around(buffer);
    const std::int64_t size = instance_.size[buffer];
    const std::int64_t highest = capacity_ - size;
    CheapestPlace place(random_);
    double cost = 0;
    std::int64_t from = 0;
    auto begin = lists.by_offset.begin();
    auto end = lists.by_top.begin();
    std::int32_t inside = 0;
    std::int32_t obstacles = 0;
    while (from <= highest) {
      for (; begin != lists.by_offset.end() && begin->at - size < from; ++begin) {
        if (!instance_.Overlap(begin->buffer, buffer)) continue;
        if (begin->buffer < instance_.count()) {
          cost += Cost(begin->buffer);
          ++inside;
        } else {
          ++obstacles;
        }
      }
      for (; end != lists.by_top.end() && end->at <= from; ++end) {
        if (!instance_.Overlap(end->buffer, buffer)) continue;
        if (end->buffer < instance_.count()) {
          cost -= Cost(end->buffer);
          --inside;
        } else {
          --obstacles;
        }
      }
      while (begin != lists.by_offset.end() && !instance_.Overlap(begin->buffer, buffer)) ++begin;
      while (end != lists.by_top.end() && !instance_.Overlap(end->buffer, buffer)) ++end;
      std::int64_t next = highest + 1;
      if (begin != lists.by_offset.end()) next = std::min(next, begin->at - size + 1);
      if (end != lists.by_top.end()) next = std::min(next, end->at);
      if (inside == 0) cost = 0;
      if (obstacles == 0) {
        place.Offer(from, next - 1, static_cast<float>(cost), instance_.alignment[buffer]);
      }
      if (place.cost() == 0) break;
      from = next;
    }
    return place;
  }

  void Eject(std::int32_t buffer, std::int64_t from, std::int64_t to) {
    const PlacedLists::Lists& lists = lists_.Around(buffer);
    ejected_.clear();
    for (const auto& [offset, other] : lists.by_offset) {
      if (offset >= to) break;
      if (offset + instance_.size[other] > from && instance_.Overlap(other, buffer)) {
        ejected_.push_back(other);
      }
    }
    for (const std::int32_t other : ejected_) {
      lists_.Remove(other, offsets_[other]);
      offsets_[other] = kUnplaced;
      unplaced_.push_back(other);
    }
  }

  const Instance& instance_;
  const std::int64_t capacity_;
  const std::int64_t tenure_;
  Random random_;
  Offsets offsets_;
  PlacedLists lists_;
  std::vector<float> weights_;
  std::vector<std::int64_t> tabu_until_;
  std::vector<std::int32_t> unplaced_;
  std::vector<std::int32_t> ejected_;
  std::int64_t step_ = 0;
};

}  // namespace

std::optional<Offsets> SearchByEjection(const Instance& instance, std::int64_t capacity,
                                        const Offsets& start, const EjectionOptions& options,
                                        Budget& budget) {
  Ejection ejection(instance, capacity, start, options);
  if (!ejection.Run(budget)) return std::nullopt;
  return ejection.TakeOffsets();
}

}  // namespace tidepool::plan
