// SPDX-License-Identifier: Apache-2.0
// The B+ tree against std::map, at sizes that give it several levels.
#include "lib/memory/blocks/entry_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tidepool::blocks {
namespace {

template <typename Leaf>
class EntryTreeTest : public ::testing::Test {};
using Leaves = ::testing::Types<SetLeaf, MapLeaf>;
TYPED_TEST_SUITE(EntryTreeTest, Leaves);

FreeEntry FirstOrNone(const std::map<FreeEntry, std::int64_t>& model,
                      std::map<FreeEntry, std::int64_t>::const_iterator at) {
  return at == model.end() ? kNoEntry : at->first;
}

TYPED_TEST(EntryTreeTest, BehavesLikeAMap) {
  std::mt19937_64 random(3);
  EntryNodePool<TypeParam> nodes;
  EntryTree<TypeParam> tree;
  std::map<FreeEntry, std::int64_t> model;
  for (int round = 0; round < 6; ++round) {
    // Grows in even rounds and shrinks in odd ones, through every height.
    for (int i = 0; i < 40'000; ++i) {
      const FreeEntry entry = 1 + random() % 200'000;
      const auto value = static_cast<std::int64_t>(1 + random() % 1000);
      const auto found = model.lower_bound(entry);
      const bool grows = random() % 8 < (round % 2 == 0 ? 6 : 2);
      if (grows && (found == model.end() || found->first != entry)) {
        model[entry] = value;
        tree.Insert(entry, value, nodes);
      } else if (!grows && found != model.end()) {
        tree.Erase(found->first, nodes);
        model.erase(found);
      }
      const FreeEntry bound = 1 + random() % 200'000;
      const auto above = model.lower_bound(bound);
      ASSERT_EQ(tree.AtOrAbove(bound), FirstOrNone(model, above));
      if constexpr (TypeParam::kHasValues) {
        const auto over = model.upper_bound(bound);
        ASSERT_EQ(tree.AtOrBelow(bound), over == model.begin() ? kNoEntry : std::prev(over)->first);
      }
    }
    ASSERT_TRUE(tree.IsValid());
    ASSERT_EQ(tree.CountEntries(), static_cast<std::int64_t>(model.size()));
    if (!model.empty()) {
      EXPECT_EQ(tree.Lowest(), model.begin()->first);
      EXPECT_EQ(tree.Highest(), model.rbegin()->first);
    }
  }
  while (!model.empty()) {
    tree.Erase(model.begin()->first, nodes);
    model.erase(model.begin());
  }
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.AtOrAbove(1), kNoEntry);
}

TEST(EntryTreeWithValues, FindsTheFirstAndTheLastLargeEnough) {
  std::mt19937_64 random(5);
  EntryNodePool<MapLeaf> nodes;
  EntryTree<MapLeaf> tree;
  EntryTree<MapLeaf>::Path path;
  std::map<FreeEntry, std::int64_t> model;
  for (int i = 0; i < 30'000; ++i) {
    const FreeEntry entry = 1 + random() % 3'000 * 16;
    const auto value = static_cast<std::int64_t>(1 + random() % 1000);
    const auto found = model.find(entry);
    if (found == model.end()) {
      model[entry] = value;
      tree.Insert(entry, value, nodes);
    } else {
      model.erase(found);
      tree.Erase(entry, nodes);
    }
    if (i % 10 != 0) continue;
    const auto least = static_cast<std::int64_t>(950 + random() % 60);
    FreeEntry first = kNoEntry;
    FreeEntry last = kNoEntry;
    for (const auto& [key, known] : model) {
      if (known < least) continue;
      if (first == kNoEntry) first = key;
      last = key;
    }
    ASSERT_EQ(tree.FirstWithValue(least, path), first);
    ASSERT_EQ(tree.LastWithValue(least, path), last);
  }
  ASSERT_TRUE(tree.IsValid());
}

// Regression: an entry moved past the stale lower bound of the next leaf, and was not found again.
TEST(EntryTreeWithValues, ReplacesAcrossAStaleBound) {
  std::mt19937_64 random(9);
  EntryNodePool<MapLeaf> nodes;
  EntryTree<MapLeaf> tree;
  EntryTree<MapLeaf>::Path path;
  std::map<FreeEntry, std::int64_t> model;
  for (FreeEntry i = 1; i <= 2000; ++i) {
    tree.Insert(i * 1000, 1, nodes);
    model[i * 1000] = 1;
  }
  for (int i = 0; i < 200'000; ++i) {
    auto at = model.lower_bound(1 + random() % 2'000'000);
    if (at == model.end()) continue;
    if (random() % 64 == 0 && model.size() > 500) {
      tree.Erase(at->first, nodes);
      model.erase(at);
      continue;
    }
    // Anywhere strictly between its neighbours.
    const FreeEntry low = at == model.begin() ? 0 : std::prev(at)->first;
    const FreeEntry high = std::next(at) == model.end() ? 3'000'000 : std::next(at)->first;
    const FreeEntry entry = low + 1 + random() % (high - low - 1);
    const auto value = static_cast<std::int64_t>(1 + random() % 100);
    tree.FindPath(at->first, path);
    tree.Replace(path, at->first, entry, value, nodes);
    model.erase(at);
    model[entry] = value;
    ASSERT_EQ(tree.AtOrAbove(entry), entry);
  }
  ASSERT_TRUE(tree.IsValid());
  ASSERT_EQ(tree.CountEntries(), static_cast<std::int64_t>(model.size()));
  for (const auto& [entry, value] : model) ASSERT_EQ(tree.AtOrAbove(entry), entry);
}

}  // namespace
}  // namespace tidepool::blocks
