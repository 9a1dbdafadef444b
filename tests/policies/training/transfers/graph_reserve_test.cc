// SPDX-License-Identifier: Apache-2.0
// The reserve of a graph: beside each run it is free, or half of the bytes that can be free.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/graph_problem.h"
#include "policies/training/transfers/transfer_dispatch.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::transfers {
namespace {

// Returns the bytes that are away beside each run if all data is that may be.
std::vector<std::int64_t> MostAway(const TransferProblem& problem) {
  std::vector<std::int64_t> away(problem.running_bytes.size());
  for (const Absence& absence : problem.absences) {
    for (std::size_t run = absence.left; run < absence.needed; ++run) away[run] += absence.bytes;
  }
  return away;
}

TEST(GraphReserve, LeavesEachRunWhatItNeeds) {
  const TaskGraph graph = MakeModel("u-net", {.batch = 1, .image = 188}).value();
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  GraphProblemOptions options = {
      .granule = 256, .rates = {.out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9}};
  const TransferProblem whole = MakeGraphProblem(graph, runs, options).transfers;
  const std::vector<std::int64_t> away = MostAway(whole);
  std::int64_t least = 0;
  for (std::size_t run = 0; run < away.size(); ++run) {
    least = std::max(least, whole.running_bytes[run] - away[run]);
  }
  for (const std::int64_t memory : {least, least + least / 10}) {
    options.memory_bytes = memory;
    options.reserve_bytes = least / 5;
    const TransferProblem problem = MakeGraphProblem(graph, runs, options).transfers;
    ASSERT_EQ(problem.absences.size(), whole.absences.size());
    for (std::size_t run = 0; run < away.size(); ++run) {
      SCOPED_TRACE(run);
      // Bytes that the run has free where the others are on the host.
      const std::int64_t spare = memory - (whole.running_bytes[run] - away[run]);
      const std::int64_t left = problem.memory_bytes - (problem.running_bytes[run] - away[run]);
      EXPECT_EQ(spare - left, std::min(options.reserve_bytes, spare / 2));
      EXPECT_GE(left, 0);
      // Between two runs no less is free than beside the one that spares less.
      EXPECT_LE(problem.resting_bytes[run], whole.resting_bytes[run]);
      EXPECT_GE(problem.running_bytes[run] - problem.resting_bytes[run],
                whole.running_bytes[run] - whole.resting_bytes[run]);
    }
  }
}

// All data at home is on the device at the end, so nothing can be free there.
TEST(GraphReserve, EndsWhenDataAtHomeTakesTheWholeMemory) {
  const TaskGraph graph = MakeModel("vgg-16", {.batch = 1, .image = 32}).value();
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  std::int64_t at_home = 0;
  for (const GraphData& data : graph.data) {
    if (data.before == DataHome::kDevice) at_home += data.bytes;
  }
  const TransferProblem problem =
      MakeGraphProblem(graph, runs,
                       {.memory_bytes = at_home,
                        .reserve_bytes = at_home / 8,
                        .rates = {.out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9}})
          .transfers;
  EXPECT_GE(problem.resting_bytes.front(), at_home / 2);
  EXPECT_LE(problem.resting_bytes.back(), problem.memory_bytes);
  EXPECT_LT(TransferDispatcher(problem).Run(EagerSet(problem)),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tidepool::transfers
