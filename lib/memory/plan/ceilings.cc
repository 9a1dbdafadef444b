// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/plan/ceilings.h"

#include <algorithm>
#include <numeric>

namespace tidepool::plan {
namespace {

std::vector<std::int32_t> Numbers(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

Ceilings::Ceilings(const Instance& instance)
    : instance_(instance),
      by_offset_(Numbers(instance.count(), instance.obstacles())),
      by_top_(Numbers(0, instance.obstacles())),
      above_({}, {}, 0) {
  std::stable_sort(by_offset_.begin(), by_offset_.end(),
                   [&](std::int32_t a, std::int32_t b) { return Offset(a) < Offset(b); });
  std::stable_sort(by_top_.begin(), by_top_.end(), [&](std::int32_t a, std::int32_t b) {
    return Top(by_offset_[a]) < Top(by_offset_[b]);
  });
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> end;
  first.reserve(by_offset_.size());
  end.reserve(by_offset_.size());
  for (const std::int32_t obstacle : by_offset_) {
    first.push_back(instance.first[obstacle]);
    end.push_back(instance.end[obstacle]);
  }
  above_ = RangeTree(first, end, first.size());
}

void Ceilings::Reset() {
  next_ = 0;
  above_.Rank(Numbers(0, instance_.obstacles()));
}

void Ceilings::Rise(std::int64_t height) {
  for (; next_ < by_top_.size() && Top(by_offset_[by_top_[next_]]) <= height; ++next_) {
    above_.Remove(by_top_[next_]);
  }
}

std::int32_t Ceilings::Over(std::int32_t first, std::int32_t end) const {
  const std::int32_t rank = above_.LeastRankMeeting(first, end);
  return rank == RangeTree::kNone ? kOpen : by_offset_[rank];
}

}  // namespace tidepool::plan
