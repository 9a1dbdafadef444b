// SPDX-License-Identifier: Apache-2.0
// The addresses that placed buffers take, by time: finds the lowest free place of a buffer.
//
// A binary tree over the sections. Each node has the addresses that some buffer takes in any of its
// sections. Ranges that touch are one, so a long time of a dense plan has few of them, however many
// buffers lie in it. Nodes of a part of the time, a block, also have the addresses of buffers that
// are there throughout; with all of a block's in one place, few of those are apart either.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_TAKEN_ADDRESSES_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_TAKEN_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

// Not thread-safe, also for two calls of LowestPlace.
class TakenAddresses {
 public:
  // With all obstacles, and all buffers with a nonnegative offset. The instance has no conflicts of
  // streams, and outlives the object.
  TakenAddresses(const Instance& instance, const Offsets& offsets);

  // O(log sections + blocks) nodes, each in the number of its ranges.
  void Insert(std::int32_t buffer, std::int64_t offset);
  // Returns the lowest offset, aligned and no lower than the buffer's floor, at which it is free of
  // all that it overlaps.
  std::int64_t LowestPlace(std::int32_t buffer);

 private:
  struct Range {
    std::int64_t from;
    std::int64_t to;
  };
  // Ascending; no two touch.
  using Ranges = std::vector<Range>;
  struct Node {
    Ranges any;  // of buffers that are there in some of its sections
    // Of buffers that are there in all of them, and of a node in a block, not in all of its
    // parent's. Empty for nodes longer than a block.
    Ranges throughout;
  };
  // The ranges that are still above a place that rises.
  struct Rest {
    const Range* next;
    const Range* end;
  };

  static void Add(Ranges& ranges, Range added);
  static std::int64_t Rise(Rest& rest, std::int64_t place, std::int64_t size,
                           std::int64_t alignment);
  // Calls `visit` with each node that a life meets and whether it lies inside, from the root on,
  // but not with nodes below one that lies inside. A node of more than `longest` sections does not.
  template <typename Visit>
  void ForEachNode(const Life& life, std::int64_t longest, const Visit& visit);
  template <typename Visit>
  void ForEachNodeOf(std::int32_t buffer, std::int64_t longest, const Visit& visit);

  const Instance& instance_;
  const std::int64_t leaves_;  // a power of two
  const std::int64_t block_;   // the sections of a block
  std::vector<Node> nodes_;    // the children of node i are 2i and 2i + 1, the leaves the last ones
  std::vector<Rest> rests_;    // of the last LowestPlace
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_TAKEN_ADDRESSES_H_
