// SPDX-License-Identifier: Apache-2.0
// Builds and searches the k-d tree over ranges.
#include "lib/memory/plan/range_tree.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <tuple>

namespace tidepool::plan {
namespace {

// Sorts `ranges` into the order of the leaves: halves by one coordinate, then by the other. The
// left half is a power of two, as in a complete tree.
void Arrange(std::span<std::int32_t> ranges, const std::vector<std::int32_t>& split_by,
             const std::vector<std::int32_t>& split_next, std::size_t leaves) {
  const std::size_t half = leaves / 2;
  if (ranges.size() <= 1) return;
  if (ranges.size() <= half) return Arrange(ranges, split_next, split_by, half);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return std::tie(split_by[a], a) < std::tie(split_by[b], b);
  };
  std::nth_element(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(half), ranges.end(),
                   before);
  Arrange(ranges.first(half), split_next, split_by, half);
  Arrange(ranges.subspan(half), split_next, split_by, half);
}

}  // namespace

RangeTree::RangeTree(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& end,
                     std::size_t count, const std::vector<std::int64_t>& need)
    : need_(need), leaf_(count) {
  const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(1, count));
  nodes_.resize(2 * leaves);
  if (!need.empty()) needs_.resize(2 * leaves);
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  Arrange(order, first, end, leaves);
  for (std::size_t i = 0; i < count; ++i) leaf_[order[i]] = leaves + i;
  ranges_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ranges_.push_back({first[i], first[i], end[i], end[i], kNone});
  }
}

void RangeTree::Rank(const std::vector<std::int32_t>& rank) {
  for (std::size_t range = 0; range < leaf_.size(); ++range) {
    const std::size_t leaf = leaf_[range];
    nodes_[leaf] = ranges_[range];
    nodes_[leaf].least_rank = rank[range];
    if (!need_.empty()) needs_[leaf] = {need_[range], need_[range]};
  }
  for (std::size_t node = nodes_.size() / 2 - 1; node > 0; --node) Join(node);
}

void RangeTree::Join(std::size_t node) {
  const Node& a = nodes_[2 * node];
  const Node& b = nodes_[2 * node + 1];
  nodes_[node] = {std::min(a.least_first, b.least_first),
                  std::max(a.greatest_first, b.greatest_first), std::min(a.least_end, b.least_end),
                  std::max(a.greatest_end, b.greatest_end), std::min(a.least_rank, b.least_rank)};
  if (needs_.empty()) return;
  const Needs& left = needs_[2 * node];
  const Needs& right = needs_[2 * node + 1];
  needs_[node] = {std::min(left.least, right.least), std::max(left.greatest, right.greatest)};
}

void RangeTree::Remove(std::int32_t range) {
  std::size_t node = leaf_[range];
  nodes_[node] = {};
  if (!needs_.empty()) needs_[node] = {};
  while ((node /= 2) > 0) Join(node);
}

std::int32_t RangeTree::LeastRankInside(std::int32_t first, std::int32_t end) const {
  std::int32_t least = kNone;
  Find(1, first, end, &least);
  return least;
}

void RangeTree::Find(std::size_t index, std::int32_t first, std::int32_t end,
                     std::int32_t* least) const {
  const Node& node = nodes_[index];
  if (node.least_rank >= *least || node.greatest_first < first || node.least_end > end) return;
  if (node.least_first >= first && node.greatest_end <= end) {
    *least = node.least_rank;
    return;
  }
  const std::size_t left = 2 * index;
  const bool left_first = nodes_[left].least_rank <= nodes_[left + 1].least_rank;
  Find(left_first ? left : left + 1, first, end, least);
  Find(left_first ? left + 1 : left, first, end, least);
}

std::int32_t RangeTree::LeastRankInside(std::int32_t first, std::int32_t end,
                                        std::int64_t room) const {
  std::int32_t least = kNone;
  FindWithin(1, first, end, room, &least);
  return least;
}

void RangeTree::FindWithin(std::size_t index, std::int32_t first, std::int32_t end,
                           std::int64_t room, std::int32_t* least) const {
  const Node& node = nodes_[index];
  if (node.least_rank >= *least || node.greatest_first < first || node.least_end > end) return;
  if (needs_[index].least > room) return;
  if (node.least_first >= first && node.greatest_end <= end && needs_[index].greatest <= room) {
    *least = node.least_rank;
    return;
  }
  const std::size_t left = 2 * index;
  const bool left_first = nodes_[left].least_rank <= nodes_[left + 1].least_rank;
  FindWithin(left_first ? left : left + 1, first, end, room, least);
  FindWithin(left_first ? left + 1 : left, first, end, room, least);
}

std::int32_t RangeTree::LeastRankMeeting(std::int32_t first, std::int32_t end) const {
  std::int32_t least = kNone;
  FindMeeting(1, first, end, &least);
  return least;
}

void RangeTree::FindMeeting(std::size_t index, std::int32_t first, std::int32_t end,
                            std::int32_t* least) const {
  const Node& node = nodes_[index];
  if (node.least_rank >= *least || node.least_first >= end || node.greatest_end <= first) return;
  if (node.greatest_first < end && node.least_end > first) {
    *least = node.least_rank;
    return;
  }
  const std::size_t left = 2 * index;
  const bool left_first = nodes_[left].least_rank <= nodes_[left + 1].least_rank;
  FindMeeting(left_first ? left : left + 1, first, end, least);
  FindMeeting(left_first ? left + 1 : left, first, end, least);
}

}  // namespace tidepool::plan
