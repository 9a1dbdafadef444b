// SPDX-License-Identifier: Apache-2.0
// First-fit plans, and a local search over their orders.
#include "lib/memory/plan/first_fit_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/taken_addresses.h"

namespace tidepool::plan {
namespace {

// A tree over time is faster from this number of buffers on.
constexpr std::int32_t kLeastForTree = 2'000;

// The placed buffers in lists.
class ListedBuffers {
 public:
  ListedBuffers(const Instance& instance, const Offsets& offsets)
      : instance_(instance), placed_(instance, offsets, PlacedLists::Sorted::kByOffset) {}

  void Insert(std::int32_t buffer, std::int64_t offset) { placed_.Insert(buffer, offset); }

  std::int64_t LowestPlace(std::int32_t buffer) const {
    const std::int64_t alignment = instance_.alignment[buffer];
    const std::int64_t size = instance_.size[buffer];
    std::int64_t place = instance_.FloorOf(buffer);
    for (const auto& [offset, other] : placed_.Around(buffer).by_offset) {
      // The one branch ends the loop, so that a processor predicts it.
      const bool overlaps = instance_.Overlap(other, buffer);
      if (static_cast<int>(overlaps) & static_cast<int>(offset >= place + size)) break;
      const std::int64_t top = AlignUp(offset + instance_.size[other], alignment);
      place = std::max(place, overlaps ? top : place);
    }
    return place;
  }

 private:
  const Instance& instance_;
  PlacedLists placed_;
};

// Places each buffer of `order` without an offset in turn. Returns whether the budget was enough.
template <typename Placed>
bool PlaceInOrder(const Instance& instance, const std::vector<std::int32_t>& order,
                  budget::Budget& budget, Offsets& offsets) {
  Placed placed(instance, offsets);
  for (const std::int32_t buffer : order) {
    if (offsets[buffer] != kUnplaced) continue;
    if (!budget.Take()) return false;
    offsets[buffer] = placed.LowestPlace(buffer);
    placed.Insert(buffer, offsets[buffer]);
  }
  return true;
}

bool CompleteWithin(const Instance& instance, const std::vector<std::int32_t>& order,
                    budget::Budget& budget, Offsets& offsets) {
  // A tree over time does not know of conflicts of streams.
  return instance.conflicts.IsKnown() || instance.count() < kLeastForTree
             ? PlaceInOrder<ListedBuffers>(instance, order, budget, offsets)
             : PlaceInOrder<TakenAddresses>(instance, order, budget, offsets);
}

class OrderSearch {
 public:
  OrderSearch(const Instance& instance, std::int64_t capacity, const Offsets& start,
              std::uint64_t seed)
      : instance_(instance), capacity_(capacity), random_(seed), offsets_(start) {
    SortByOffset();
    height_ = Height(instance, start);
  }

  std::optional<Offsets> Run(budget::Budget& budget) {
    while (height_ > capacity_) {
      const std::vector<std::int32_t> before = order_;
      Change();
      std::optional<Offsets> offsets = PlanByFirstFit(instance_, order_, budget);
      if (!offsets.has_value()) return std::nullopt;
      const std::int64_t height = Height(instance_, *offsets);
      if (height > height_ && Below(kAcceptWorseOneIn) > 0) {
        order_ = before;
        continue;
      }
      height_ = height;
      offsets_ = *std::move(offsets);
    }
    return std::move(offsets_);
  }

 private:
  static constexpr std::size_t kAcceptWorseOneIn = 50;

  std::size_t Below(std::size_t limit) { return random_() % limit; }

  // Restores the best order: first-fit in the order of a plan's offsets is no higher than the plan.
  void SortByOffset() {
    order_.resize(offsets_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::int32_t a, std::int32_t b) { return offsets_[a] < offsets_[b]; });
  }

  // Moves a random buffer that exceeds the capacity, and a random other one, a random way to the
  // front.
  void Change() {
    std::vector<std::size_t> high;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (offsets_[order_[i]] + instance_.size[order_[i]] > capacity_) high.push_back(i);
    }
    if (!high.empty()) MoveSooner(high[Below(high.size())]);
    if (Below(2) == 0) MoveSooner(Below(order_.size()));
  }

  void MoveSooner(std::size_t from) {
    const auto moved = order_.begin() + static_cast<std::ptrdiff_t>(from);
    std::rotate(order_.begin() + static_cast<std::ptrdiff_t>(Below(from + 1)), moved, moved + 1);
  }

  const Instance& instance_;
  const std::int64_t capacity_;
  std::mt19937_64 random_;
  std::vector<std::int32_t> order_;
  Offsets offsets_;
  std::int64_t height_ = 0;
};

}  // namespace

std::optional<Offsets> PlanByFirstFit(const Instance& instance,
                                      const std::vector<std::int32_t>& order,
                                      budget::Budget& budget) {
  Offsets offsets(order.size(), kUnplaced);
  if (!CompleteWithin(instance, order, budget, offsets)) return std::nullopt;
  return offsets;
}

void CompleteByFirstFit(const Instance& instance, const std::vector<std::int32_t>& order,
                        Offsets& offsets) {
  budget::Budget unlimited;
  CompleteWithin(instance, order, unlimited, offsets);
}

bool IsFree(const Instance& instance, const PlacedLists& placed, std::int32_t buffer,
            std::int64_t offset) {
  const std::vector<PlacedLists::Entry>& around = placed.Around(buffer).by_offset;
  return std::ranges::none_of(around, [&](const PlacedLists::Entry& entry) {
    return entry.at < offset + instance.size[buffer] &&
           entry.at + instance.size[entry.buffer] > offset &&
           instance.Overlap(entry.buffer, buffer);
  });
}

std::optional<Offsets> SearchByOrders(const Instance& instance, std::int64_t capacity,
                                      const Offsets& start, std::uint64_t seed,
                                      budget::Budget& budget) {
  return OrderSearch(instance, capacity, start, seed).Run(budget);
}

}  // namespace tidepool::plan
