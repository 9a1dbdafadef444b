// SPDX-License-Identifier: Apache-2.0
// Keeps the taken addresses of a tree over time.
#include "lib/memory/plan/taken_addresses.h"

#include <algorithm>
#include <bit>

#include "lib/base/arithmetic.h"

namespace tidepool::plan {
namespace {

// With fewer blocks more buffers lie in a part of one; with more, a long-lived one lies in more.
constexpr std::int64_t kBlocks = 64;

}  // namespace

TakenAddresses::TakenAddresses(const Instance& instance, const Offsets& offsets)
    : instance_(instance),
      leaves_(static_cast<std::int64_t>(
          std::bit_ceil(static_cast<std::uint64_t>(std::max(1, instance.sections()))))),
      block_(std::max<std::int64_t>(1, leaves_ / kBlocks)),
      nodes_(static_cast<std::size_t>(2 * leaves_)) {
  for (std::int32_t i = 0; i < instance.count(); ++i) {
    if (offsets[i] >= 0) Insert(i, offsets[i]);
  }
  for (std::int32_t i = 0; i < instance.obstacles(); ++i) {
    Insert(instance.count() + i, instance.obstacle_offset[i]);
  }
}

void TakenAddresses::Insert(std::int32_t buffer, std::int64_t offset) {
  const Range range = {offset, offset + instance_.size[buffer]};
  ForEachNodeOf(buffer, block_, [&](Node& node, bool is_inside) {
    Add(node.any, range);
    if (is_inside) Add(node.throughout, range);
  });
}

std::int64_t TakenAddresses::LowestPlace(std::int32_t buffer) {
  const std::int64_t size = instance_.size[buffer];
  const std::int64_t alignment = instance_.alignment[buffer];
  rests_.clear();
  ForEachNodeOf(buffer, leaves_, [&](const Node& node, bool is_inside) {
    const Ranges& ranges = is_inside ? node.any : node.throughout;
    if (!ranges.empty()) rests_.push_back({ranges.data(), ranges.data() + ranges.size()});
  });
  std::int64_t place = instance_.FloorOf(buffer);
  // The last one that raised the place has nothing more in its way.
  for (std::size_t free = 0, i = 0; free < rests_.size(); i = i + 1 == rests_.size() ? 0 : i + 1) {
    const std::int64_t risen = Rise(rests_[i], place, size, alignment);
    free = risen == place ? free + 1 : 1;
    place = risen;
  }
  return place;
}

void TakenAddresses::Add(Ranges& ranges, Range added) {
  const auto first = std::ranges::lower_bound(ranges, added.from, {}, &Range::to);
  auto last = first;
  for (; last != ranges.end() && last->from <= added.to; ++last) {
    added = {std::min(added.from, last->from), std::max(added.to, last->to)};
  }
  if (first == last) {
    ranges.insert(first, added);
  } else {
    *first = added;
    ranges.erase(first + 1, last);
  }
}

// Returns the lowest place from `place` on that is free of the ranges.
std::int64_t TakenAddresses::Rise(Rest& rest, std::int64_t place, std::int64_t size,
                                  std::int64_t alignment) {
  for (; rest.next != rest.end && rest.next->from < place + size; ++rest.next) {
    if (rest.next->to > place) place = AlignUp(rest.next->to, alignment);
  }
  return place;
}

template <typename Visit>
void TakenAddresses::ForEachNode(const Life& life, std::int64_t longest, const Visit& visit) {
  const auto walk = [&](const auto& self, std::size_t node, std::int64_t begin,
                        std::int64_t length) {
    if (begin >= life.upper || begin + length <= life.lower) return;
    const bool is_inside = length <= longest && life.lower <= begin && begin + length <= life.upper;
    visit(nodes_[node], is_inside);
    if (is_inside) return;
    self(self, 2 * node, begin, length / 2);
    self(self, 2 * node + 1, begin + length / 2, length / 2);
  };
  walk(walk, 1, 0, leaves_);
}

template <typename Visit>
void TakenAddresses::ForEachNodeOf(std::int32_t buffer, std::int64_t longest, const Visit& visit) {
  if (instance_.lives.empty()) {
    return ForEachNode({instance_.first[buffer], instance_.end[buffer]}, longest, visit);
  }
  for (const Life& life : instance_.lives[buffer]) ForEachNode(life, longest, visit);
}

}  // namespace tidepool::plan
