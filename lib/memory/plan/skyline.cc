// SPDX-License-Identifier: Apache-2.0
// The skyline heuristic, without and with obstacles.
#include "lib/memory/plan/skyline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "lib/base/arithmetic.h"

namespace tidepool::plan {
namespace {

std::vector<std::int32_t> Numbers(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

constexpr std::int32_t kNoLevel = -1;

// The levels of the skyline from left to right. No two neighbours have the same height.
class Skyline {
 public:
  struct Stretch {
    std::int32_t first;
    std::int32_t end;
    std::int64_t height;
  };

  explicit Skyline(std::int32_t sections) { Add({0, sections, 0}, kNoLevel, kNoLevel); }

  // Returns the lowest level, the leftmost of equal ones.
  std::int32_t Lowest() {
    for (; !links_[std::get<2>(lowest_.top())].is_live; lowest_.pop()) {
      unused_.push_back(std::get<2>(lowest_.top()));
    }
    return std::get<2>(lowest_.top());
  }
  const Stretch& operator[](std::int32_t index) const { return stretches_[index]; }

  // Returns the height of the lower neighbour; the greatest number without a neighbour.
  std::int64_t NeighbourHeight(std::int32_t index) const {
    std::int64_t height = std::numeric_limits<std::int64_t>::max();
    for (const std::int32_t beside : {links_[index].left, links_[index].right}) {
      if (beside != kNoLevel) height = std::min(height, stretches_[beside].height);
    }
    return height;
  }

  // Joins the lowest level to its lower neighbour.
  void Raise(std::int32_t index) {
    const Link link = links_[index];
    const bool to_left =
        link.left != kNoLevel &&
        (link.right == kNoLevel || stretches_[link.left].height <= stretches_[link.right].height);
    Stretch raised = stretches_[index];
    raised.height = stretches_[to_left ? link.left : link.right].height;
    Replace(index, raised);
  }

  // Gives the part `top` of the lowest level a new height; the rest of the level stays.
  void RaisePart(std::int32_t index, const Stretch& top) {
    const Stretch whole = stretches_[index];
    if (whole.first < top.first) AddBeside(index, {whole.first, top.first, whole.height}, true);
    if (top.end < whole.end) AddBeside(index, {top.end, whole.end, whole.height}, false);
    Replace(index, top);
  }

 private:
  struct Link {
    std::int32_t left = kNoLevel;
    std::int32_t right = kNoLevel;
    bool is_live = true;
  };

  std::int32_t Add(const Stretch& stretch, std::int32_t left, std::int32_t right) {
    const std::int32_t index = TakeUnused();
    stretches_[index] = stretch;
    links_[index] = {left, right};
    if (left != kNoLevel) links_[left].right = index;
    if (right != kNoLevel) links_[right].left = index;
    lowest_.emplace(stretch.height, stretch.first, index);
    return index;
  }

  std::int32_t TakeUnused() {
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::int32_t>(stretches_.size()));
      stretches_.emplace_back();
      links_.emplace_back();
    }
    const std::int32_t index = unused_.back();
    unused_.pop_back();
    return index;
  }

  void AddBeside(std::int32_t index, const Stretch& stretch, bool to_left) {
    const Link link = links_[index];
    if (to_left) {
      Add(stretch, link.left, index);
    } else {
      Add(stretch, index, link.right);
    }
  }

  // Replaces `index` by `stretch`, joined with neighbours of its height.
  void Replace(std::int32_t index, Stretch stretch) {
    std::int32_t left = links_[index].left;
    std::int32_t right = links_[index].right;
    links_[index].is_live = false;
    if (left != kNoLevel && stretches_[left].height == stretch.height) {
      stretch.first = stretches_[left].first;
      links_[left].is_live = false;
      left = links_[left].left;
    }
    if (right != kNoLevel && stretches_[right].height == stretch.height) {
      stretch.end = stretches_[right].end;
      links_[right].is_live = false;
      right = links_[right].right;
    }
    Add(stretch, left, right);
  }

  using Entry = std::tuple<std::int64_t, std::int32_t, std::int32_t>;  // height, first, index

  std::vector<Stretch> stretches_;
  std::vector<Link> links_;
  std::vector<std::int32_t> unused_;  // stretches that are in no queue
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lowest_;
};

std::vector<std::int32_t> Ranks(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int32_t>(i);
  return rank;
}

std::int64_t LeastAlignment(const Instance& instance) {
  const auto least = std::min_element(instance.alignment.begin(), instance.alignment.end());
  return least == instance.alignment.end() ? 1 : *least;
}

// Returns the sizes, with the waste that alignment may cause; nothing without obstacles.
std::vector<std::int64_t> Needs(const Instance& instance, std::int64_t common) {
  std::vector<std::int64_t> needs;
  if (instance.obstacles() == 0) return needs;
  needs.reserve(instance.alignment.size());
  for (std::size_t i = 0; i < instance.alignment.size(); ++i) {
    needs.push_back(instance.size[i] + instance.alignment[i] - common);
  }
  return needs;
}

// Plans buffers in the stretches of a skyline with obstacles above it. A buffer in a stretch must
// end below the lowest obstacle over any part of it. If no buffer fits, either the stretch rises to
// its lower neighbour, or the part under that obstacle rises onto it, whichever is lower.
class WalkAmongObstacles {
 public:
  WalkAmongObstacles(const Instance& instance, const std::vector<std::int32_t>& order,
                     std::int64_t common, RangeTree& unplaced, Ceilings& ceilings)
      : instance_(instance),
        order_(order),
        common_(common),
        unplaced_(unplaced),
        ceilings_(ceilings),
        skyline_(instance.sections()),
        offsets_(order.size()) {}

  Offsets Run() {
    for (std::size_t left = order_.size(); left > 0;) {
      if (Step()) --left;
    }
    return std::move(offsets_);
  }

 private:
  // Returns whether a buffer was placed.
  bool Step() {
    const std::int32_t index = skyline_.Lowest();
    const Skyline::Stretch stretch = skyline_[index];
    ceilings_.Rise(stretch.height);
    const std::int32_t obstacle = ceilings_.Over(stretch.first, stretch.end);
    const std::int64_t ceiling = obstacle == Ceilings::kOpen
                                     ? std::numeric_limits<std::int64_t>::max()
                                     : ceilings_.Offset(obstacle);
    const std::int32_t found = unplaced_.LeastRankInside(
        stretch.first, stretch.end, ceiling - AlignUp(stretch.height, common_));
    if (found != RangeTree::kNone) {
      Place(order_[found], index, stretch.height);
      return true;
    }
    if (skyline_.NeighbourHeight(index) < ceiling || obstacle == Ceilings::kOpen) {
      skyline_.Raise(index);
    } else {
      skyline_.RaisePart(index,
                         {std::max(stretch.first, instance_.first[obstacle]),
                          std::min(stretch.end, instance_.end[obstacle]), ceilings_.Top(obstacle)});
    }
    return false;
  }

  void Place(std::int32_t buffer, std::int32_t index, std::int64_t height) {
    unplaced_.Remove(buffer);
    offsets_[buffer] = AlignUp(height, instance_.alignment[buffer]);
    skyline_.RaisePart(index, {instance_.first[buffer], instance_.end[buffer],
                               offsets_[buffer] + instance_.size[buffer]});
  }

  const Instance& instance_;
  const std::vector<std::int32_t>& order_;
  const std::int64_t common_;  // all alignments are multiples of it
  RangeTree& unplaced_;
  Ceilings& ceilings_;
  Skyline skyline_;
  Offsets offsets_;
};

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

SkylinePlanner::SkylinePlanner(const Instance& instance)
    : instance_(instance),
      common_(LeastAlignment(instance)),
      unplaced_(instance.first, instance.end, instance.alignment.size(), Needs(instance, common_)),
      ceilings_(instance) {}

Offsets SkylinePlanner::Plan(const std::vector<std::int32_t>& order) {
  if (order.empty()) return {};
  unplaced_.Rank(Ranks(order));
  if (instance_.obstacles() > 0) {
    ceilings_.Reset();
    return WalkAmongObstacles(instance_, order, common_, unplaced_, ceilings_).Run();
  }
  Skyline skyline(instance_.sections());
  Offsets offsets(order.size());
  for (std::size_t left = order.size(); left > 0;) {
    const std::int32_t index = skyline.Lowest();
    const Skyline::Stretch& stretch = skyline[index];
    const std::int32_t found = unplaced_.LeastRankInside(stretch.first, stretch.end);
    if (found == RangeTree::kNone) {
      skyline.Raise(index);
      continue;
    }
    const std::int32_t buffer = order[found];
    unplaced_.Remove(buffer);
    offsets[buffer] = AlignUp(stretch.height, instance_.alignment[buffer]);
    skyline.RaisePart(index, {instance_.first[buffer], instance_.end[buffer],
                              offsets[buffer] + instance_.size[buffer]});
    --left;
  }
  return offsets;
}

}  // namespace tidepool::plan
