// SPDX-License-Identifier: Apache-2.0
// The nodes of the B+ trees in entry_tree.h, and their pool.
//
// An entry is one 64-bit number, so an index orders blocks by comparing numbers. Leaves are aligned
// to cache lines, padded with kEndEntry and searched in whole lines, without a branch that depends
// on their contents: a mispredicted branch costs more than the search.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_NODE_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_NODE_H_

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "lib/memory/blocks/four_lanes.h"

namespace tidepool::blocks {

using FreeEntry = std::uint64_t;

inline constexpr FreeEntry kNoEntry = 0;            // below every entry
inline constexpr FreeEntry kEndEntry = UINT64_MAX;  // above every entry

// Returns the largest of some nonnegative values.
template <std::size_t kValues>
std::int64_t LargestOf(const std::array<std::int64_t, kValues>& values) {
  static_assert(kValues % 2 == 0);
  std::int64_t even = 0;  // two chains, because each step waits for the one before
  std::int64_t odd = 0;
  for (std::size_t i = 0; i < kValues; i += 2) {
    even = std::max(even, values[i]);
    odd = std::max(odd, values[i + 1]);
  }
  return std::max(even, odd);
}

// Returns a bit set: bit i says whether values[i] >= least. No value is negative.
template <std::size_t kValues>
std::uint32_t ValuesAtLeast(const std::array<std::int64_t, kValues>& values, std::int64_t least) {
  static_assert(kValues % 4 == 0 && kValues <= 32);
  std::uint32_t at_least = 0;
  for (std::size_t i = 0; i < kValues; i += 4) at_least |= LanesAtLeast(&values[i], least) << i;
  return at_least;
}

struct EntryNode {
  std::int16_t level = 0;     // 0: leaf
  std::int16_t capacity = 0;  // of a leaf
  std::int32_t count = 0;
};

// A leaf of unordered entries: a pass over all finds the least entry above a bound, and an
// insertion is one store. The entries follow the header in memory. A short leaf is one cache line
// with seven entries, as many as most bins have.
struct alignas(64) SetLeaf : EntryNode {
  static constexpr int kCapacity = 63;
  static constexpr int kShortCapacity = 7;
  static constexpr int kLine = 8;
  static constexpr bool kHasValues = false;

  static constexpr std::size_t Bytes(int capacity) {
    return sizeof(EntryNode) + sizeof(FreeEntry) * static_cast<std::size_t>(capacity);
  }

  // The entries; kEndEntry from `count` to `capacity`.
  FreeEntry* begin() { return reinterpret_cast<FreeEntry*>(static_cast<EntryNode*>(this) + 1); }
  const FreeEntry* begin() const {
    return reinterpret_cast<const FreeEntry*>(static_cast<const EntryNode*>(this) + 1);
  }
  void Clear() { std::fill_n(begin(), capacity, kEndEntry); }

  // Returns the least entry >= bound, or kEndEntry.
  FreeEntry AtOrAbove(FreeEntry bound) const {
    const FreeEntry* const all = begin();
    // Modulo 2^64, entries below the bound are farther from it than kEndEntry.
    FreeEntry even = kEndEntry - bound;
    FreeEntry odd = even;
    for (int i = 0; i < kLine - 2; i += 2) {
      even = std::min(even, all[i] - bound);
      odd = std::min(odd, all[i + 1] - bound);
    }
    even = std::min(even, all[kLine - 2] - bound);
    for (int begin = kLine - 1; begin < count; begin += kLine) {
      for (int i = begin; i < begin + kLine; i += 2) {
        even = std::min(even, all[i] - bound);
        odd = std::min(odd, all[i + 1] - bound);
      }
    }
    return bound + std::min(even, odd);
  }
  FreeEntry Lowest() const { return AtOrAbove(0); }
  FreeEntry Highest() const { return *std::max_element(begin(), begin() + count); }

  void Insert(FreeEntry entry, std::int64_t /*value*/) { begin()[count++] = entry; }

  // Erases `entry`, which is here. Returns its value.
  std::int64_t Erase(FreeEntry entry) {
    FreeEntry* const all = begin();
    const int at = IndexOf(entry);
    assert(all[at] == entry);
    all[at] = all[--count];
    all[count] = kEndEntry;
    return 0;
  }

  std::int64_t Largest() const { return 0; }

  // Returns whether all entries differ: a set leaf has no order.
  bool IsOrdered() const {
    std::vector<FreeEntry> sorted(begin(), begin() + count);
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) == sorted.end();
  }

  // Moves all entries of a short leaf to an empty long one.
  void MoveTo(SetLeaf& longer) {
    std::copy_n(begin(), count, longer.begin());
    longer.count = std::exchange(count, 0);
  }

  // Moves the upper half of a full long leaf to an empty one and returns the least entry there.
  FreeEntry MoveUpperHalf(SetLeaf& right) {
    constexpr int kHalf = kCapacity / 2;
    FreeEntry* const all = begin();
    std::nth_element(all, all + kHalf, all + kCapacity);
    std::copy(all + kHalf, all + kCapacity, right.begin());
    std::fill(all + kHalf, all + kCapacity, kEndEntry);
    count = kHalf;
    right.count = kCapacity - kHalf;
    return right.begin()[0];
  }

 private:
  int IndexOf(FreeEntry entry) const {
    const FreeEntry* const all = begin();
    int at = 0;
    for (int i = 1; i < kLine - 1; ++i) at = all[i] == entry ? i : at;
    for (int begin = kLine - 1; begin < count; begin += kLine) {
      for (int i = begin; i < begin + kLine; ++i) at = all[i] == entry ? i : at;
    }
    return at;
  }
};
static_assert(SetLeaf::Bytes(SetLeaf::kShortCapacity) == 64 &&
              SetLeaf::Bytes(SetLeaf::kCapacity) % 64 == 0);

// A leaf that keeps a value beside each entry.
struct alignas(64) MapLeaf : EntryNode {
  static constexpr int kCapacity = 15;
  static constexpr int kShortCapacity = kCapacity;  // there is one length
  static constexpr bool kHasValues = true;

  static constexpr std::size_t Bytes(int /*capacity*/) { return sizeof(MapLeaf); }

  std::array<FreeEntry, kCapacity> entries;        // ascending; kEndEntry from `count` on
  std::array<std::int64_t, kCapacity + 1> values;  // positive; 0 from `count` on

  const FreeEntry* begin() const { return entries.data(); }
  void Clear() {
    entries.fill(kEndEntry);
    values.fill(0);
  }

  // Returns the number of entries below `bound`.
  int Rank(FreeEntry bound) const {
    int rank = 0;
    for (const FreeEntry entry : entries) rank += entry < bound ? 1 : 0;
    return rank;
  }

  // Returns the least entry >= bound, or kEndEntry.
  FreeEntry AtOrAbove(FreeEntry bound) const {
    const int at = Rank(bound);
    return at < count ? entries[at] : kEndEntry;
  }
  FreeEntry Lowest() const { return entries[0]; }
  FreeEntry Highest() const { return entries[count - 1]; }

  void Insert(FreeEntry entry, std::int64_t value) {
    const int at = Rank(entry);
    std::copy_backward(entries.begin() + at, entries.begin() + count, entries.begin() + count + 1);
    std::copy_backward(values.begin() + at, values.begin() + count, values.begin() + count + 1);
    entries[at] = entry;
    values[at] = value;
    ++count;
  }

  // Erases `entry`, which is here. Returns its value.
  std::int64_t Erase(FreeEntry entry) {
    const int at = Rank(entry);
    assert(entries[at] == entry);
    const std::int64_t value = values[at];
    std::copy(entries.begin() + at + 1, entries.begin() + count, entries.begin() + at);
    std::copy(values.begin() + at + 1, values.begin() + count, values.begin() + at);
    entries[--count] = kEndEntry;
    values[count] = 0;
    return value;
  }

  std::int64_t Largest() const { return LargestOf(values); }

  bool IsOrdered() const {
    return std::adjacent_find(entries.begin(), entries.begin() + count, std::greater_equal<>()) ==
           entries.begin() + count;
  }

  // Moves the upper half of a full leaf to an empty one and returns the least entry there.
  FreeEntry MoveUpperHalf(MapLeaf& right) {
    constexpr int kHalf = kCapacity / 2;
    std::copy(entries.begin() + kHalf, entries.end(), right.entries.begin());
    std::copy(values.begin() + kHalf, values.end(), right.values.begin());
    std::fill(entries.begin() + kHalf, entries.end(), kEndEntry);
    std::fill(values.begin() + kHalf, values.end(), 0);
    count = kHalf;
    right.count = kCapacity - kHalf;
    return right.entries[0];
  }
};
static_assert(sizeof(MapLeaf) == 256);

struct alignas(64) EntryInner : EntryNode {
  static constexpr int kCapacity = 32;

  // Lower bounds of the children, never raised when a child's least entry goes.
  // Ascending; kEndEntry from `count` on.
  std::array<FreeEntry, kCapacity> bounds;
  std::array<EntryNode*, kCapacity> children;
  std::array<std::int64_t, kCapacity>
      largest;  // the largest value below each child; 0 without values

  // Returns the last child with a bound of at most `entry`; the first child if there is no such
  // child.
  int ChildFor(FreeEntry entry) const {
    int child = 0;
    for (int half = kCapacity / 2; half > 0; half /= 2) {
      child += bounds[child + half] <= entry ? half : 0;
    }
    return child;
  }

  std::int64_t Largest() const { return LargestOf(largest); }

  void InsertChild(int at, FreeEntry bound, EntryNode* child, std::int64_t child_largest) {
    std::copy_backward(bounds.begin() + at, bounds.begin() + count, bounds.begin() + count + 1);
    std::copy_backward(children.begin() + at, children.begin() + count,
                       children.begin() + count + 1);
    std::copy_backward(largest.begin() + at, largest.begin() + count, largest.begin() + count + 1);
    bounds[at] = bound;
    children[at] = child;
    largest[at] = child_largest;
    ++count;
  }

  void RemoveChild(int at) {
    std::copy(bounds.begin() + at + 1, bounds.begin() + count, bounds.begin() + at);
    std::copy(children.begin() + at + 1, children.begin() + count, children.begin() + at);
    std::copy(largest.begin() + at + 1, largest.begin() + count, largest.begin() + at);
    bounds[--count] = kEndEntry;
    largest[count] = 0;
  }

  void MoveUpperHalf(EntryInner& right) {
    constexpr int kHalf = kCapacity / 2;
    std::copy(bounds.begin() + kHalf, bounds.end(), right.bounds.begin());
    std::copy(children.begin() + kHalf, children.end(), right.children.begin());
    std::copy(largest.begin() + kHalf, largest.end(), right.largest.begin());
    std::fill(bounds.begin() + kHalf, bounds.end(), kEndEntry);
    std::fill(largest.begin() + kHalf, largest.end(), 0);
    count = kHalf;
    right.count = kCapacity - kHalf;
  }
};

// Owns the nodes of any number of trees. Not thread-safe.
template <typename Leaf>
class EntryNodePool {
 public:
  Leaf* TakeLeaf() { return TakeLeaf(leaves_, Leaf::kCapacity); }
  Leaf* TakeShortLeaf() { return TakeLeaf(short_leaves_, Leaf::kShortCapacity); }

  EntryInner* TakeInner(int level) {
    auto* const inner = new (inners_.Take(sizeof(EntryInner))) EntryInner;
    inner->level = static_cast<std::int16_t>(level);
    inner->bounds.fill(kEndEntry);
    inner->largest.fill(0);
    return inner;
  }

  void Return(EntryNode* node) {
    if (node->level > 0) {
      inners_.spare.push_back(static_cast<EntryInner*>(node));
    } else {
      (node->capacity < Leaf::kCapacity ? short_leaves_ : leaves_)
          .spare.push_back(static_cast<Leaf*>(node));
    }
  }

 private:
  static constexpr std::size_t kNodesPerSlab = 16;

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  // Memory for nodes of one size, a multiple of a cache line.
  struct Memory {
    void* Take(std::size_t bytes) {
      if (spare.empty()) {
        const std::size_t lines = bytes / sizeof(Line);
        slabs.push_back(std::make_unique_for_overwrite<Line[]>(lines * kNodesPerSlab));
        for (std::size_t i = kNodesPerSlab; i-- > 0;) spare.push_back(&slabs.back()[i * lines]);
      }
      void* const node = spare.back();
      spare.pop_back();
      return node;
    }

    std::vector<void*> spare;
    std::vector<std::unique_ptr<Line[]>> slabs;
  };

  static Leaf* TakeLeaf(Memory& memory, int capacity) {
    auto* const leaf = new (memory.Take(Leaf::Bytes(capacity))) Leaf;
    leaf->capacity = static_cast<std::int16_t>(capacity);
    leaf->Clear();
    return leaf;
  }

  Memory short_leaves_;
  Memory leaves_;
  Memory inners_;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_NODE_H_
