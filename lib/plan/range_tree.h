// Which of a set of ranges lies inside a given one and comes first in an order.
//
// A k-d tree over (first, end) whose nodes know their bounds and the best rank below, so that a
// question looks only into nodes that are partly inside and hold something better.
#ifndef TIDEPOOL_LIB_PLAN_RANGE_TREE_H_
#define TIDEPOOL_LIB_PLAN_RANGE_TREE_H_

#include <cstdint>
#include <vector>

namespace tidepool::plan {

class RangeTree {
 public:
  static constexpr std::int32_t kNone = INT32_MAX;

  // Range i is [first[i], end[i]) and has rank[i], which are 0, 1, ... in any order, and where
  // there are any, need[i]. Of `first` and `end`, only as many as there are ranks count. O(n log
  // n).
  RangeTree(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& end,
            const std::vector<std::int32_t>& rank, const std::vector<std::int64_t>& need = {});

  // The least rank of the ranges inside [first, end), or kNone. O(sqrt n) as a rule.
  std::int32_t LeastRankInside(std::int32_t first, std::int32_t end) const;
  // The same of those that need no more than `room`.
  std::int32_t LeastRankInside(std::int32_t first, std::int32_t end, std::int64_t room) const;
  // The same of the ranges that have something in common with [first, end).
  std::int32_t LeastRankMeeting(std::int32_t first, std::int32_t end) const;
  // O(log n).
  void Remove(std::int32_t range);

 private:
  struct Node {
    std::int32_t least_first = INT32_MAX;
    std::int32_t greatest_first = -1;
    std::int32_t least_end = INT32_MAX;
    std::int32_t greatest_end = -1;
    std::int32_t least_rank = kNone;
  };

  struct Needs {
    std::int64_t least = INT64_MAX;
    std::int64_t greatest = -1;
  };

  void Join(std::size_t node);
  void Find(std::size_t node, std::int32_t first, std::int32_t end, std::int32_t* least) const;
  void FindWithin(std::size_t node, std::int32_t first, std::int32_t end, std::int64_t room,
                  std::int32_t* least) const;
  void FindMeeting(std::size_t node, std::int32_t first, std::int32_t end,
                   std::int32_t* least) const;

  // A complete binary tree: the children of node i are 2i and 2i + 1, the leaves are the last ones.
  std::vector<Node> nodes_;
  std::vector<Needs> needs_;       // of the nodes, or empty
  std::vector<std::size_t> leaf_;  // of each range
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_RANGE_TREE_H_
