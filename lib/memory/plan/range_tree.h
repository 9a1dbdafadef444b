// SPDX-License-Identifier: Apache-2.0
// Finds, in a set of ranges, the range of least rank that lies inside a given one.
//
// A k-d tree over (first, end). Its nodes know their bounds and the best rank below, so a query
// visits only nodes that are partly inside and contain a better rank.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_RANGE_TREE_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_RANGE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::plan {

class RangeTree {
 public:
  static constexpr std::int32_t kNone = INT32_MAX;

  // Range i is [first[i], end[i]), with need[i] unless `need` is empty. Elements of `first` and
  // `end` from `count` on are ignored. The tree is empty until Rank. O(n log n).
  RangeTree(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& end,
            std::size_t count, const std::vector<std::int64_t>& need = {});

  // Fills the tree with all ranges. Range i has rank[i], a permutation of 0, 1, ... O(n).
  void Rank(const std::vector<std::int32_t>& rank);

  // Returns the least rank of the ranges inside [first, end), or kNone. O(sqrt n) as a rule.
  std::int32_t LeastRankInside(std::int32_t first, std::int32_t end) const;
  // Considers only ranges that need at most `room`.
  std::int32_t LeastRankInside(std::int32_t first, std::int32_t end, std::int64_t room) const;
  // Considers the ranges that overlap [first, end).
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

  // By range.
  std::vector<Node> ranges_;
  std::vector<std::int64_t> need_;  // or empty
  std::vector<std::size_t> leaf_;
  // A complete binary tree: the children of node i are 2i and 2i + 1, the leaves are the last ones.
  std::vector<Node> nodes_;
  std::vector<Needs> needs_;  // of the nodes, or empty
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_RANGE_TREE_H_
