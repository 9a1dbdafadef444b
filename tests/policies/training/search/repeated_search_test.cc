// SPDX-License-Identifier: Apache-2.0
// A search for one micro-batch serves all.
#include "policies/training/search/repeated_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "tests/training/chain/lasting_graphs.h"
#include "tests/training/chain/micro_batch_graphs.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::search {
namespace {

using transfers::Iteration;
using transfers::IterationOptions;

TaskGraph Gpt() {
  return MakeModel("gpt2-medium", {.batch = 16, .inputs = DataHome::kDevice}).value();
}

// Returns whether a search goes on, for this many tries.
transfers::GoOn Tries(int tries) {
  return [tries](std::size_t) mutable { return tries-- > 0; };
}

IterationOptions OptionsFor(std::int64_t memory_bytes) {
  return {.problem = {.memory_bytes = memory_bytes,
                      .rates = {.out_bytes_per_second = 48e9, .in_bytes_per_second = 48e9}}};
}

// Returns the bytes in use at the peak of all tasks in their order.
std::int64_t PeakOf(const TaskGraph& graph) {
  const Iteration all =
      SearchIteration(graph, Algorithms(graph.tasks.size()),
                      OptionsFor(std::numeric_limits<std::int64_t>::max() / 4), Tries(0), Tries(0));
  std::int64_t peak = 0;
  for (const std::int64_t bytes : all.problem.transfers.running_bytes) peak = std::max(peak, bytes);
  return peak;
}

TEST(RepeatedSearch, IsForSeveralMicroBatchesThatAreAlike) {
  const TaskGraph graph = Gpt();
  EXPECT_FALSE(RepeatedSearch(graph).is_useful());
  TaskGraph several = testing::WithMicroBatches(graph, 3);
  EXPECT_TRUE(RepeatedSearch(several).is_useful());
  for (std::size_t task = 0; task < several.tasks.size(); ++task) {
    several.tasks[task].algorithms.front().seconds = 1 + static_cast<double>(task);
  }
  EXPECT_FALSE(RepeatedSearch(several).is_useful());
}

TEST(RepeatedSearch, DoesTheSameInAllMicroBatches) {
  constexpr std::size_t kCount = 8;
  const TaskGraph one = Gpt();
  const TaskGraph graph = testing::WithMicroBatches(one, kCount);
  const std::size_t tasks = testing::FirstOf(one, TaskPhase::kUpdate);
  const IterationOptions options = OptionsFor(PeakOf(graph) * 65 / 100);
  const Algorithms algorithms(graph.tasks.size());
  const Iteration repeated =
      RepeatedSearch(graph).Search(algorithms, options, Tries(300), Tries(3000));
  const Iteration whole = SearchIteration(graph, algorithms, options, Tries(300), Tries(3000));
  EXPECT_LT(repeated.seconds, whole.seconds);
  bool runs_some = false;
  for (std::size_t task = 0; task < kCount * tasks; ++task) {
    EXPECT_EQ(repeated.runs_again[task], repeated.runs_again[task % tasks]) << task;
    runs_some |= repeated.runs_again[task];
  }
  EXPECT_TRUE(runs_some);
}

TEST(RepeatedSearch, SendsTheSameDataOfAllMicroBatches) {
  const TaskGraph graph = testing::WithMicroBatches(Gpt(), 8);
  IterationOptions options = OptionsFor(PeakOf(graph) * 80 / 100);
  options.recomputes = false;
  const Algorithms algorithms(graph.tasks.size());
  const Iteration repeated =
      RepeatedSearch(graph).Search(algorithms, options, Tries(0), Tries(3000));
  const Iteration whole = SearchIteration(graph, algorithms, options, Tries(0), Tries(3000));
  EXPECT_LT(repeated.seconds, whole.seconds);
}

// While the state stays, the tasks of a micro-batch have no room.
TEST(RepeatedSearch, SendsDataThatNoTaskOfAMicroBatchUses) {
  TaskGraph graph = testing::WithMicroBatches(Gpt(), 4);
  const std::int64_t peak = PeakOf(graph);
  const std::size_t state = graph.data.size();
  graph.data.push_back({.name = "state", .bytes = peak, .kind = DataKind::kOptimizerState});
  graph.tasks.back().updates.push_back(state);
  const Iteration found = RepeatedSearch(graph).Search(
      Algorithms(graph.tasks.size()), OptionsFor(peak * 3 / 2), Tries(300), Tries(3000));
  ASSERT_LT(found.seconds, std::numeric_limits<double>::infinity());
  std::size_t sent = 0;
  for (std::size_t g = 0; g < found.is_away.size(); ++g) {
    sent += found.is_away[g] && found.problem.moved[g].data == state ? 1 : 0;
  }
  EXPECT_EQ(sent, 1);
}

}  // namespace
}  // namespace tidepool::search
