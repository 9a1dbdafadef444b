// SPDX-License-Identifier: Apache-2.0
// Finds the smallest blocks by dynamic programming over whether each keeps all of its result.
#include "policies/training/chain/smallest_blocks.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tidepool::chain_policies {
namespace {

constexpr std::int64_t kNeverFits = std::numeric_limits<std::int64_t>::max();

// The best way to a block, with a result of which all is kept, or the output alone.
struct Way {
  std::int64_t bytes = kNeverFits;
  bool input_is_whole = true;
};
using Ways = std::array<Way, 2>;  // by whether all of the result is kept

// Returns the bytes that the operations of a block need.
std::int64_t BytesOf(const RecomputeModel& model, std::size_t i, bool input_is_whole,
                     bool keeps_all) {
  const bool is_last = i + 1 == model.operations();
  const std::int64_t forward = keeps_all ? model.ForwardBytes(i) : model.OutputBytes(i);
  const std::int64_t again = model.ForwardBytes(i) + model.GradientBytes(i);
  const std::int64_t backward = model.x(i + 1) + model.BackwardBytes(i);
  const std::int64_t most =
      std::max({backward, is_last ? 0 : forward, is_last || !keeps_all ? again : std::int64_t{0}});
  return most + (input_is_whole ? model.x(i) : model.output(i));
}

Ways Extend(const RecomputeModel& model, std::size_t i, const Ways& before) {
  Ways ways;
  for (const bool keeps_all : {true, false}) {
    if (!keeps_all && !model.may_rerun(i)) continue;
    for (const bool whole : {true, false}) {
      const std::int64_t bytes =
          std::max(before[whole ? 1 : 0].bytes, BytesOf(model, i, whole, keeps_all));
      Way& way = ways[keeps_all ? 1 : 0];
      if (bytes < way.bytes) way = {bytes, whole};
    }
  }
  return ways;
}

}  // namespace

SmallestBlocks FindSmallestBlocks(const RecomputeModel& model, std::size_t slots) {
  std::vector<Ways> ways;
  Ways before = {Way{}, Way{0}};  // x_0 is whole
  for (std::size_t i = 0; i < model.operations(); ++i) {
    ways.push_back(Extend(model, i, before));
    before = ways.back();
  }
  SmallestBlocks smallest;
  smallest.bytes = before[1].bytes;
  bool keeps_all = true;
  for (std::size_t i = model.operations(); i-- > 0;) {
    const bool whole = ways[i][keeps_all ? 1 : 0].input_is_whole;
    const std::int64_t input = whole ? model.x(i) : model.output(i);
    smallest.blocks.push_back({.first = i,
                               .end = i + 1,
                               .keeps_all = keeps_all && i + 1 < model.operations(),
                               .offloads = input > 0,
                               .slots = slots});
    keeps_all = whole;
  }
  std::reverse(smallest.blocks.begin(), smallest.blocks.end());
  return smallest;
}

}  // namespace tidepool::chain_policies
