#include "lib/sizing/plan/skyline.h"

#include <functional>
#include <queue>
#include <tuple>

#include "lib/sizing/plan/range_tree.h"

namespace tidepool::sizing {
namespace {

constexpr std::int32_t kNobody = -1;

// The stretches of the skyline from left to right, no two neighbours of the same height.
class Skyline {
 public:
  struct Stretch {
    std::int32_t first;
    std::int32_t end;
    std::int64_t height;
  };

  explicit Skyline(std::int32_t sections) { Add({0, sections, 0}, kNobody, kNobody); }

  // The lowest stretch, the leftmost of equal ones.
  std::int32_t Lowest() {
    while (!links_[std::get<2>(lowest_.top())].is_live) lowest_.pop();
    return std::get<2>(lowest_.top());
  }
  const Stretch& operator[](std::int32_t index) const { return stretches_[index]; }

  // The lowest stretch becomes part of its lower neighbour.
  void Raise(std::int32_t index) {
    const Link link = links_[index];
    const bool to_left =
        link.left != kNobody &&
        (link.right == kNobody || stretches_[link.left].height <= stretches_[link.right].height);
    Stretch raised = stretches_[index];
    raised.height = stretches_[to_left ? link.left : link.right].height;
    Replace(index, raised);
  }

  // The part `top` of the lowest stretch gets a new height; what is left of it beside stays.
  void Put(std::int32_t index, const Stretch& top) {
    const Stretch whole = stretches_[index];
    if (whole.first < top.first) AddBeside(index, {whole.first, top.first, whole.height}, true);
    if (top.end < whole.end) AddBeside(index, {top.end, whole.end, whole.height}, false);
    Replace(index, top);
  }

 private:
  struct Link {
    std::int32_t left;
    std::int32_t right;
    bool is_live = true;
  };

  std::int32_t Add(const Stretch& stretch, std::int32_t left, std::int32_t right) {
    const auto index = static_cast<std::int32_t>(stretches_.size());
    stretches_.push_back(stretch);
    links_.push_back({left, right});
    if (left != kNobody) links_[left].right = index;
    if (right != kNobody) links_[right].left = index;
    lowest_.emplace(stretch.height, stretch.first, index);
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

  // Puts `stretch`, joined with neighbours of its height, in the place of `index`.
  void Replace(std::int32_t index, Stretch stretch) {
    std::int32_t left = links_[index].left;
    std::int32_t right = links_[index].right;
    links_[index].is_live = false;
    if (left != kNobody && stretches_[left].height == stretch.height) {
      stretch.first = stretches_[left].first;
      links_[left].is_live = false;
      left = links_[left].left;
    }
    if (right != kNobody && stretches_[right].height == stretch.height) {
      stretch.end = stretches_[right].end;
      links_[right].is_live = false;
      right = links_[right].right;
    }
    Add(stretch, left, right);
  }

  using Entry = std::tuple<std::int64_t, std::int32_t, std::int32_t>;  // height, first, index

  std::vector<Stretch> stretches_;
  std::vector<Link> links_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lowest_;
};

}  // namespace

Offsets PlanBySkyline(const Instance& instance, const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int32_t>(i);
  RangeTree unplaced(instance.first, instance.end, rank);
  Skyline skyline(instance.sections());
  Offsets offsets(order.size());
  for (std::size_t left = order.size(); left > 0;) {
    const std::int32_t index = skyline.Lowest();
    const Skyline::Stretch& stretch = skyline[index];
    const std::int32_t found = unplaced.LeastRankInside(stretch.first, stretch.end);
    if (found == RangeTree::kNone) {
      skyline.Raise(index);
      continue;
    }
    const std::int32_t buffer = order[found];
    unplaced.Remove(buffer);
    offsets[buffer] = AlignUp(stretch.height, instance.alignment[buffer]);
    skyline.Put(index, {instance.first[buffer], instance.end[buffer],
                        offsets[buffer] + instance.size[buffer]});
    --left;
  }
  return offsets;
}

}  // namespace tidepool::sizing
