// SPDX-License-Identifier: Apache-2.0
// The hash table from starts to blocks, against a model of its contents.
#include "lib/memory/blocks/start_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tidepool::blocks {
namespace {

TEST(StartTable, BehavesLikeAMap) {
  std::mt19937_64 random(11);
  StartTable table;
  std::vector<Block> blocks;
  std::map<std::int64_t, BlockId> model;
  for (int i = 0; i < 200'000; ++i) {
    const std::int64_t offset = static_cast<std::int64_t>(random() % 20'000) * 512;
    const auto found = model.find(offset);
    ASSERT_EQ(table.Find(offset, blocks), found == model.end() ? kNoBlock : found->second);
    if (found == model.end()) {
      const auto id = static_cast<BlockId>(blocks.size());
      blocks.emplace_back(offset, true, kNoBlock, kNoBlock);
      table.Insert(id, offset, blocks);
      model[offset] = id;
    } else {
      ASSERT_EQ(table.Take(offset, blocks), found->second);
      model.erase(found);
    }
    ASSERT_EQ(table.size(), static_cast<std::int64_t>(model.size()));
  }
  for (const auto& [offset, id] : model) ASSERT_EQ(table.Find(offset, blocks), id);
}

}  // namespace
}  // namespace tidepool::blocks
