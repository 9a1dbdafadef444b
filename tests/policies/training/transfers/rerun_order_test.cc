// SPDX-License-Identifier: Apache-2.0
// Orders of runs of networks with several forward passes: each run finds the results that it needs.
#include "policies/training/transfers/rerun_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/training/chain/micro_batch_graphs.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::transfers {
namespace {

constexpr std::size_t kMicroBatches = 3;

TaskGraph ThreeMicroBatches() {
  return testing::WithMicroBatches(MakeModel("resnet-18", {.batch = 1}).value(), kMicroBatches);
}

std::vector<bool> Random(std::mt19937_64& random, std::size_t count) {
  std::vector<bool> chosen(count);
  for (std::size_t i = 0; i < count; ++i) chosen[i] = random() % 3 == 0;
  return chosen;
}

// Follows the results that are there, and counts the runs that make them again.
class Walk {
 public:
  Walk(const TaskGraph& graph, const RerunOrder& order, const std::vector<bool>& runs_again)
      : graph_(graph), order_(order), runs_again_(runs_again), is_there_(graph.data.size()) {
    for (std::size_t data = 0; data < graph.data.size(); ++data) {
      is_there_[data] = ExistsBefore(graph.data[data]);
    }
  }

  void Run(std::size_t task) {
    const bool is_first = task == next_;
    if (!is_first) {
      EXPECT_LT(task, next_) << "later tasks ran before it";
      EXPECT_TRUE(order_.CanRunAgain(task)) << task;
      EXPECT_TRUE(runs_again_[task] || order_.KeptBytes(task) == 0) << task;
      ++again_;
    }
    const GraphTask& one = graph_.tasks[task];
    for (const auto* uses : {&one.reads, &one.updates}) {
      for (const std::size_t data : *uses) EXPECT_TRUE(is_there_[data]) << one.name;
    }
    for (const std::size_t data : one.writes) is_there_[data] = true;
    if (!is_first) return;
    ++next_;
    for (const RerunOrder::Pass& pass : order_.passes()) {
      if (pass.end == next_) LoseResults(pass);
    }
  }

  std::size_t ran() const { return next_; }
  std::size_t again() const { return again_; }

 private:
  void LoseResults(const RerunOrder::Pass& pass) {
    for (std::size_t task = pass.begin; task < pass.end; ++task) {
      if (!order_.CanRunAgain(task)) continue;
      if (!runs_again_[task] && order_.KeptBytes(task) > 0) continue;
      for (const std::size_t data : graph_.tasks[task].writes) is_there_[data] = false;
    }
  }

  const TaskGraph& graph_;
  const RerunOrder& order_;
  const std::vector<bool>& runs_again_;
  std::vector<bool> is_there_;  // by data
  std::size_t next_ = 0;        // the first task that has not run
  std::size_t again_ = 0;
};

TEST(RerunOrder, EachRunFindsItsDataInAnyPass) {
  const TaskGraph graph = ThreeMicroBatches();
  const RerunOrder order(graph, std::vector<std::size_t>(graph.tasks.size()));
  ASSERT_EQ(order.passes().size(), kMicroBatches);
  std::mt19937_64 random(71);
  for (int i = 0; i < testing::Rounds(20); ++i) {
    const std::vector<bool> runs_again = Random(random, graph.tasks.size());
    Walk walk(graph, order, runs_again);
    for (const TaskRun& run : order.Make(runs_again)) walk.Run(run.task);
    EXPECT_EQ(walk.ran(), graph.tasks.size());
    EXPECT_GT(walk.again(), 0);
  }
}

// Later passes have the cuts and the results of the first.
TEST(RerunOrder, PassesAreAlike) {
  const TaskGraph graph = ThreeMicroBatches();
  const RerunOrder order(graph, std::vector<std::size_t>(graph.tasks.size()));
  const RerunOrder::Pass& first = order.passes().front();
  const RerunOrder::Pass& last = order.passes().back();
  ASSERT_EQ(order.cuts().size() % kMicroBatches, 0);
  const std::size_t cuts = order.cuts().size() / kMicroBatches;
  EXPECT_GT(cuts, 5);
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    EXPECT_EQ(order.cuts()[order.cuts().size() - cuts + cut] - last.begin,
              order.cuts()[cut] - first.begin);
  }
  for (std::size_t place = 0; place < first.size(); ++place) {
    EXPECT_EQ(order.KeptBytes(last.begin + place), order.KeptBytes(first.begin + place));
    EXPECT_EQ(order.CanRunAgain(last.begin + place), order.CanRunAgain(first.begin + place));
  }
}

// A change alters one pass, or all of them at the same places.
TEST(RerunOrder, ChangesOnePassOrAll) {
  const TaskGraph graph = ThreeMicroBatches();
  const RerunOrder order(graph, std::vector<std::size_t>(graph.tasks.size()));
  std::mt19937_64 random(72);
  std::vector<int> changed(kMicroBatches + 1);  // by number of passes
  for (int i = 0; i < 200; ++i) {
    std::vector<bool> runs_again(graph.tasks.size());
    order.ChangeAtRandom(random, runs_again);
    std::size_t passes = 0;
    for (const RerunOrder::Pass& pass : order.passes()) {
      const auto begin = runs_again.begin() + static_cast<std::ptrdiff_t>(pass.begin);
      passes += std::count(begin, begin + static_cast<std::ptrdiff_t>(pass.size()), true) > 0;
    }
    ++changed[passes];
  }
  EXPECT_GT(changed[1], 20);
  EXPECT_EQ(changed[2], 0);
  EXPECT_GT(changed[kMicroBatches], 20);
}

}  // namespace
}  // namespace tidepool::transfers
