// SPDX-License-Identifier: Apache-2.0
// An ordered set of entries: a B+ tree that frees nodes when they run empty.
//
// The nodes of many trees come from one pool, so a tree is one pointer, and the size index can
// afford a tree per bin. Under-full nodes are not merged ("free-at-empty"): erasing touches one
// leaf, and the height stays logarithmic in the largest number of entries so far. When leaves keep
// values, an inner node knows the largest value below each child. Then one descent finds the first
// entry with a value of at least v.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_TREE_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_TREE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <utility>

#include "lib/memory/blocks/entry_node.h"

namespace tidepool::blocks {

template <typename Leaf>
class EntryTree {
  static constexpr int kMaxLevels = 16;  // 7 * 16^15 entries at the least
  static constexpr int kNoChild = -1;

  static EntryInner& AsInner(EntryNode* node) { return *static_cast<EntryInner*>(node); }
  static Leaf& AsLeaf(EntryNode* node) { return *static_cast<Leaf*>(node); }

  static FreeEntry LowestBelow(EntryNode* node) {
    while (node->level > 0) node = AsInner(node).children[0];
    return AsLeaf(node).Lowest();
  }
  static FreeEntry HighestBelow(EntryNode* node) {
    while (node->level > 0) node = AsInner(node).children[node->count - 1];
    return AsLeaf(node).Highest();
  }
  static std::int64_t LargestIn(EntryNode* node) {
    return node->level == 0 ? AsLeaf(node).Largest() : AsInner(node).Largest();
  }

 public:
  using NodePool = EntryNodePool<Leaf>;

  // The inner nodes from the root to a leaf, and the child taken in each.
  struct Path {
    struct Step {
      EntryInner* inner;
      int child;
    };
    std::array<Step, kMaxLevels> steps;
    int length = 0;
    Leaf* leaf = nullptr;

    // Goes from a node to a leaf. `child_of` chooses a child in each inner node; kNoChild ends the
    // walk.
    bool Descend(EntryNode* node, auto child_of) {
      while (node->level > 0) {
        EntryInner& inner = AsInner(node);
        const int child = child_of(inner);
        if (child == kNoChild) return false;
        steps[length++] = {&inner, child};
        node = inner.children[child];
      }
      leaf = &AsLeaf(node);
      return true;
    }
    Leaf& Descend(EntryNode* node, FreeEntry entry) {
      Descend(node, [entry](const EntryInner& inner) { return inner.ChildFor(entry); });
      return *leaf;
    }

    // Entries from here on belong to the next leaf.
    FreeEntry UpperBound() const {
      for (int i = length; i-- > 0;) {
        const auto [inner, child] = steps[i];
        if (child + 1 < inner->count) return inner->bounds[child + 1];
      }
      return kEndEntry;
    }

    // Lowers the bounds on the path to at most an entry that was added to the leaf.
    void LowerBounds(FreeEntry entry) const {
      for (int i = length; i-- > 0;) {
        const auto [inner, child] = steps[i];
        if (inner->bounds[child] <= entry) return;
        inner->bounds[child] = entry;
      }
    }

    // Updates the largest values from the leaf upwards, as far as they change.
    void UpdateLargest() const {
      if constexpr (!Leaf::kHasValues) return;
      for (int i = length; i-- > 0;) {
        const auto [inner, child] = steps[i];
        const std::int64_t largest = LargestIn(inner->children[child]);
        if (inner->largest[child] == largest) return;
        inner->largest[child] = largest;
      }
    }

    // Updates the largest values after only one value in the leaf changed, from `old_value` to
    // `new_value`. Searches a node only when it lost its largest value.
    void UpdateLargest(std::int64_t old_value, std::int64_t new_value) const {
      if constexpr (!Leaf::kHasValues) return;
      for (int i = length; i-- > 0;) {
        const auto [inner, child] = steps[i];
        const std::int64_t largest = inner->largest[child];
        if (std::max(old_value, new_value) < largest) return;
        if (new_value < largest) new_value = LargestIn(inner->children[child]);
        if (new_value == largest) return;
        inner->largest[child] = new_value;
        old_value = largest;
      }
    }
  };

  EntryTree() = default;
  EntryTree(EntryTree&& other) noexcept : root_(std::exchange(other.root_, nullptr)) {}
  EntryTree& operator=(EntryTree&& other) noexcept {
    root_ = std::exchange(other.root_, nullptr);
    return *this;
  }

  bool empty() const { return root_ == nullptr; }
  // Returns whether there is more than one leaf.
  bool IsDeep() const { return root_ != nullptr && root_->level > 0; }

  // O(log n).
  void Insert(FreeEntry entry, std::int64_t value, NodePool& pool) {
    if (root_ != nullptr && root_->level == 0 && root_->count < root_->capacity) [[likely]] {
      AsLeaf(root_).Insert(entry, value);
    } else {
      InsertBelow(entry, value, pool);
    }
  }

  // O(log n). `entry` is present.
  void Erase(FreeEntry entry, NodePool& pool) {
    if (root_->level == 0) [[likely]] {
      AsLeaf(root_).Erase(entry);
      if (root_->count == 0) ReturnRoot(pool);
    } else {
      EraseBelow(entry, pool);
    }
  }

  // Makes `path` the path to `entry`, which is present. A path is valid until the tree changes.
  // O(log n).
  void FindPath(FreeEntry entry, Path& path) const {
    path.length = 0;
    path.Descend(root_, entry);
  }

  // O(log n). `path` leads to `entry`.
  void Erase(Path& path, FreeEntry entry, NodePool& pool) {
    const std::int64_t value = path.leaf->Erase(entry);
    if (path.leaf->count > 0) [[likely]] {
      path.UpdateLargest(value, 0);
    } else if (path.length == 0) {
      ReturnRoot(pool);
    } else {
      RemoveEmptyLeaf(path, pool);
    }
  }

  // O(log n). `path` leads to `old_entry`, and `new_entry` has the same rank.
  void Replace(Path& path, FreeEntry old_entry, FreeEntry new_entry, std::int64_t new_value,
               NodePool& pool) requires Leaf::kHasValues {
    if (new_entry >= path.UpperBound()) [[unlikely]] {
      Erase(path, old_entry, pool);
      Insert(new_entry, new_value, pool);
      return;
    }
    Leaf& leaf = *path.leaf;
    const int at = leaf.Rank(old_entry);
    assert(leaf.entries[at] == old_entry);
    const std::int64_t old_value = std::exchange(leaf.values[at], new_value);
    leaf.entries[at] = new_entry;
    path.LowerBounds(new_entry);
    path.UpdateLargest(old_value, new_value);
  }

  // Return the least and the greatest entry of a tree that is not empty.
  FreeEntry Lowest() const { return LowestBelow(root_); }
  FreeEntry Highest() const { return HighestBelow(root_); }

  // Returns the least entry >= bound, or kNoEntry. O(log n).
  FreeEntry AtOrAbove(FreeEntry bound) const {
    if (root_ == nullptr) return kNoEntry;
    if (root_->level > 0) [[unlikely]]
      return AtOrAboveBelow(bound);
    const FreeEntry entry = AsLeaf(root_).AtOrAbove(bound);
    return entry != kEndEntry ? entry : kNoEntry;
  }

  // Returns the greatest entry <= bound, or kNoEntry. O(log n).
  FreeEntry AtOrBelow(FreeEntry bound) const requires Leaf::kHasValues {
    if (root_ == nullptr) return kNoEntry;
    Path path;
    const Leaf& leaf = path.Descend(root_, bound);
    const int at = leaf.Rank(bound + 1) - 1;
    if (at >= 0) return leaf.entries[at];
    while (path.length > 0) {
      const auto [inner, child] = path.steps[--path.length];
      if (child > 0) return HighestBelow(inner->children[child - 1]);
    }
    return kNoEntry;
  }

  // Returns the largest value, or 0.
  std::int64_t LargestValue() const requires Leaf::kHasValues {
    return root_ == nullptr ? 0 : LargestIn(root_);
  }

  // Returns the least entry with a value of at least `value`, which is positive, or kNoEntry;
  // `path` then leads there. O(log n).
  FreeEntry FirstWithValue(std::int64_t value, Path& path) const requires Leaf::kHasValues {
    return WithValue(value, path, [](std::uint32_t fits) { return std::countr_zero(fits); });
  }

  // Returns the greatest such entry.
  FreeEntry LastWithValue(std::int64_t value, Path& path) const requires Leaf::kHasValues {
    return WithValue(value, path, [](std::uint32_t fits) { return 31 ^ std::countl_zero(fits); });
  }

  // Returns whether order, counts, bounds, padding and largest values are right. O(n).
  bool IsValid() const { return root_ == nullptr || IsValidBelow(root_, 0, kEndEntry); }
  std::int64_t CountEntries() const { return root_ == nullptr ? 0 : CountBelow(root_); }

 private:
  // The general cases are not inlined, so that the common case, a bin of one leaf, stays small.
  [[gnu::noinline]] FreeEntry AtOrAboveBelow(FreeEntry bound) const {
    Path path;
    const FreeEntry entry = path.Descend(root_, bound).AtOrAbove(bound);
    if (entry != kEndEntry) return entry;
    while (path.length > 0) {
      const auto [inner, child] = path.steps[--path.length];
      if (child + 1 < inner->count) return LowestBelow(inner->children[child + 1]);
    }
    return kNoEntry;
  }

  [[gnu::noinline]] void InsertBelow(FreeEntry entry, std::int64_t value, NodePool& pool) {
    if (root_ == nullptr) {
      root_ = pool.TakeShortLeaf();
      return AsLeaf(root_).Insert(entry, value);
    }
    if constexpr (Leaf::kShortCapacity < Leaf::kCapacity) {
      if (root_->level == 0 && root_->capacity < Leaf::kCapacity) {
        Leaf* const longer = pool.TakeLeaf();
        AsLeaf(root_).MoveTo(*longer);
        ReturnRoot(pool);
        root_ = longer;
        return longer->Insert(entry, value);
      }
    }
    Path path;
    Leaf& leaf = path.Descend(root_, entry);
    path.LowerBounds(entry);
    if (leaf.count < Leaf::kCapacity) {
      leaf.Insert(entry, value);
      path.UpdateLargest(0, value);
      return;
    }
    Leaf& right = *pool.TakeLeaf();
    const FreeEntry bound = leaf.MoveUpperHalf(right);
    (entry < bound ? leaf : right).Insert(entry, value);
    AddSibling(path, &right, bound, pool);
    path.UpdateLargest();
  }

  [[gnu::noinline]] void EraseBelow(FreeEntry entry, NodePool& pool) {
    Path path;
    path.Descend(root_, entry);
    Erase(path, entry, pool);
  }

  void ReturnRoot(NodePool& pool) { pool.Return(std::exchange(root_, nullptr)); }

  void RemoveEmptyLeaf(Path& path, NodePool& pool) {
    for (EntryNode* node = path.leaf; node->count == 0;) {
      pool.Return(node);
      const auto [inner, child] = path.steps[--path.length];
      inner->RemoveChild(child);
      node = inner;
    }
    path.UpdateLargest();
    while (root_->level > 0 && root_->count == 1) {
      EntryNode* only = AsInner(root_).children[0];
      pool.Return(root_);
      root_ = only;
    }
  }

  // Returns an entry with such a value. `choose` picks a bit among the fitting children of each
  // node.
  FreeEntry WithValue(std::int64_t value, Path& path, auto choose) const {
    path.length = 0;
    if (empty()) return kNoEntry;
    const bool found = path.Descend(root_, [&](const EntryInner& inner) {
      const std::uint32_t fits = ValuesAtLeast(inner.largest, value);
      return fits != 0 ? choose(fits) : kNoChild;
    });
    if (!found) return kNoEntry;
    const std::uint32_t fits = ValuesAtLeast(path.leaf->values, value);
    return fits != 0 ? path.leaf->entries[choose(fits)] : kNoEntry;
  }

  // Adds `right`, split off the node that `path` leads to, to the inner nodes above.
  void AddSibling(Path& path, EntryNode* right, FreeEntry bound, NodePool& pool) {
    while (path.length > 0) {
      const auto [inner, child] = path.steps[--path.length];
      inner->largest[child] = LargestIn(inner->children[child]);
      if (inner->count < EntryInner::kCapacity) {
        inner->InsertChild(child + 1, bound, right, LargestIn(right));
        return;
      }
      EntryInner* split = pool.TakeInner(inner->level);
      inner->MoveUpperHalf(*split);
      const bool stays = child < inner->count;
      (stays ? inner : split)
          ->InsertChild(stays ? child + 1 : child + 1 - inner->count, bound, right,
                        LargestIn(right));
      right = split;
      bound = split->bounds[0];
    }
    EntryInner* above = pool.TakeInner(root_->level + 1);
    above->InsertChild(0, 0, root_, LargestIn(root_));
    above->InsertChild(1, bound, right, LargestIn(right));
    root_ = above;
  }

  static bool IsValidLeaf(const Leaf& leaf, FreeEntry lower, FreeEntry upper) {
    if (leaf.count < 1 || leaf.count > leaf.capacity) return false;
    const auto is_within = [&](FreeEntry entry) { return lower <= entry && entry < upper; };
    return std::all_of(leaf.begin(), leaf.begin() + leaf.count, is_within) && leaf.IsOrdered() &&
           std::all_of(leaf.begin() + leaf.count, leaf.begin() + leaf.capacity,
                       [](FreeEntry entry) { return entry == kEndEntry; });
  }

  // Checks the nodes below `node` against a lower and an exclusive upper bound.
  static bool IsValidBelow(EntryNode* node, FreeEntry lower, FreeEntry upper) {
    if (node->level == 0) return IsValidLeaf(AsLeaf(node), lower, upper);
    const EntryInner& inner = AsInner(node);
    if (inner.count < 1 || inner.count > EntryInner::kCapacity) return false;
    for (int i = 0; i < EntryInner::kCapacity; ++i) {
      if (i >= inner.count) {
        if (inner.bounds[i] != kEndEntry || inner.largest[i] != 0) return false;
        continue;
      }
      EntryNode* child = inner.children[i];
      const FreeEntry next = i + 1 < inner.count ? inner.bounds[i + 1] : upper;
      if (inner.bounds[i] < lower || inner.bounds[i] >= next) return false;
      if (child->count == 0 || child->level != inner.level - 1) return false;
      if (inner.largest[i] != LargestIn(child)) return false;
      if (!IsValidBelow(child, inner.bounds[i], next)) return false;
    }
    return true;
  }

  static std::int64_t CountBelow(EntryNode* node) {
    if (node->level == 0) return node->count;
    std::int64_t sum = 0;
    for (int i = 0; i < node->count; ++i) sum += CountBelow(AsInner(node).children[i]);
    return sum;
  }

  EntryNode* root_ = nullptr;  // of no empty leaf
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_ENTRY_TREE_H_
