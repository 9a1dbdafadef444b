// SPDX-License-Identifier: Apache-2.0
// Tests bounds of memory and the choice of sub-batches against the paper's figures and slow models.
#include "tidepool/training/sub_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "policies/training/sub_batch/paper_values.h"
#include "tests/support/modnn_networks.h"
#include "tests/support/rounds.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGigabyte = 1'000'000'000;

GraphFamily FamilyOf(const std::string& name, std::int64_t image = 0) {
  const ModelOptions options = {.image = image, .gpu = "k40", .fused_batch_normalization = true};
  return MakeModelFamily(name, options, std::vector<std::int64_t>{1}).value();
}

bool IsOfWeights(const GraphData& data) {
  return data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
         data.kind == DataKind::kOptimizerState;
}

std::set<std::size_t> UsesOf(const GraphTask& task) {
  std::set<std::size_t> uses(task.reads.begin(), task.reads.end());
  uses.insert(task.writes.begin(), task.writes.end());
  uses.insert(task.updates.begin(), task.updates.end());
  return uses;
}

// Equation (8), window by window.
std::int64_t SlowWindows(const TaskGraph& graph, double share) {
  std::vector<GraphTask> tasks;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kUpdate) tasks.push_back(task);
  }
  const std::size_t length = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(tasks.size()))));
  std::int64_t staying = 0;
  for (const GraphData& data : graph.data) {
    if (IsOfWeights(data) || data.after == DataHome::kDevice) staying += data.bytes;
  }
  std::int64_t most = 0;
  for (std::size_t first = 0; first + length <= tasks.size(); ++first) {
    std::set<std::size_t> uses;
    std::int64_t workspace = 0;
    for (std::size_t i = first; i < first + length; ++i) {
      uses.merge(UsesOf(tasks[i]));
      const TaskAlgorithm* fastest = &tasks[i].algorithms.front();
      for (const TaskAlgorithm& one : tasks[i].algorithms) {
        if (one.seconds < fastest->seconds) fastest = &one;
      }
      workspace = std::max(workspace, fastest->workspace_bytes);
    }
    std::int64_t bytes = workspace;
    for (const std::size_t data : uses) {
      const GraphData& one = graph.data[data];
      if (!IsOfWeights(one) && one.after != DataHome::kDevice) bytes += one.bytes;
    }
    most = std::max(most, bytes);
  }
  return staying + most;
}

TEST(MemoryBounds, ConsecutiveTasksEqualASlowCount) {
  testing::RandomGraphs random(1);
  for (int i = 0; i < testing::Rounds(300); ++i) {
    const TaskGraph graph = random.Valid(2 + random.Below(20));
    if (std::all_of(graph.tasks.begin(), graph.tasks.end(),
                    [](const GraphTask& task) { return task.phase == TaskPhase::kUpdate; })) {
      continue;
    }
    for (const double share : {0.125, 0.5, 1.0}) {
      ASSERT_EQ(sub_batch::ConsecutiveTaskBytes(graph, share, 1), SlowWindows(graph, share)) << i;
    }
  }
}

// Sizes of the paper's networks and batches. The means of section 7 are 42 and 59.
TEST(MemoryBounds, TechniquesSaveWhatThePaperSays) {
  double by_sub_batches = 0;
  double by_all = 0;
  for (const testing::ModnnNetwork& network : testing::kModnnNetworks) {
    SCOPED_TRACE(network.name);
    const sub_batch::TechniqueMemory memory =
        sub_batch::MemoryOfTechniques(FamilyOf(network.name, network.image), network.batch, 1)
            .value();
    EXPECT_LT(memory.algorithms, memory.ideal);
    EXPECT_LT(memory.transfers, memory.algorithms);
    EXPECT_LT(memory.sub_batches, memory.transfers);
    EXPECT_LT(memory.all, memory.sub_batches);
    EXPECT_LT(memory.all_without_weights, memory.all);
    const sub_batch::TechniqueMemory one =
        sub_batch::MemoryOfTechniques(FamilyOf(network.name, network.image), 1, 1).value();
    const auto data = static_cast<double>(memory.algorithms);
    by_sub_batches += data / static_cast<double>(one.algorithms) / 6;
    by_all += data / static_cast<double>(memory.all) / 6;
  }
  EXPECT_NEAR(by_sub_batches, 42.4, 0.02 * 42.4);
  EXPECT_NEAR(by_all, 59, 0.06 * 59);
}

TEST(MemoryBounds, NamesTheLargestTask) {
  const TaskGraph graph = GraphAt(FamilyOf("vgg-16"), 1).value();
  const MemoryBound bound = LeastMemory(graph, 1);
  std::int64_t bytes = bound.staying_bytes;
  for (const std::size_t data : UsesOf(graph.tasks[bound.task])) {
    if (!IsOfWeights(graph.data[data])) bytes += graph.data[data].bytes;
  }
  EXPECT_EQ(bound.bytes, bytes);
  EXPECT_GE(LeastMemory(graph, 4096).bytes, bound.bytes);
  EXPECT_EQ(LeastMemory(graph, 1, StayingData::kNone).staying_bytes, 0);
}

TEST(SubBatchChoice, RegularOnesAreMultiplesOf64AndPowersOfTwo) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> cases = {
      {1, 1}, {3, 2}, {12, 8}, {33, 32}, {63, 32}, {64, 64}, {100, 64}, {200, 192}, {256, 256}};
  for (const auto& [from, to] : cases) EXPECT_EQ(RegularSubBatch(from), to) << from;
}

// With a memory for all data nothing is divided. With less, the rule holds for the answer, and for
// no regular sub-batch above it.
TEST(SubBatchChoice, IsTheLargestThatKeepsTheRule) {
  for (const char* name : {"vgg-16", "resnet-34"}) {
    const GraphFamily family = FamilyOf(name);
    const std::int64_t all = sub_batch::MemoryOfTechniques(family, 256, 512).value().ideal;
    EXPECT_EQ(ChooseSubBatch(family, 256, all, 512).value().sub_batch, 256);
    for (const std::int64_t gigabytes : {12, 8, 5, 3, 2}) {
      SCOPED_TRACE(::testing::Message() << name << " " << gigabytes);
      const std::int64_t memory = gigabytes * kGigabyte;
      const SubBatchChoice choice = ChooseSubBatch(family, 256, memory, 512).value();
      EXPECT_EQ(RegularSubBatch(choice.sub_batch), choice.sub_batch);
      const auto keeps = [&](std::int64_t sub_batch) {
        return sub_batch::ConsecutiveTaskBytes(GraphAt(family, sub_batch).value(), 0.15, 512) <=
               memory;
      };
      ASSERT_TRUE(choice.keeps_rule);
      EXPECT_TRUE(keeps(choice.sub_batch));
      for (std::int64_t more = choice.sub_batch + 1; more <= 256; ++more) {
        if (RegularSubBatch(more) == more) {
          EXPECT_FALSE(keeps(more)) << more;
        }
      }
    }
  }
}

// The least memory for one sample still runs, one byte less does not, and the error says why.
TEST(SubBatchChoice, TheBoundIsEnough) {
  const GraphFamily family = FamilyOf("vgg-16");
  const TaskGraph one = GraphAt(family, 1).value();
  const MemoryBound bound = LeastMemory(one, 512);
  const SubBatchChoice choice = ChooseSubBatch(family, 256, bound.bytes, 512).value();
  EXPECT_EQ(choice.sub_batch, 1);
  EXPECT_FALSE(choice.keeps_rule);
  const absl::StatusOr<SubBatchChoice> less = ChooseSubBatch(family, 256, bound.bytes - 1, 512);
  ASSERT_EQ(less.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(less.status().message()), HasSubstr(one.tasks[bound.task].name));
  EXPECT_THAT(std::string(less.status().message()),
              HasSubstr(std::to_string(bound.bytes) + " bytes at a sub-batch of 1"));
}

// A family of one task with one datum of a byte a sample.
GraphFamily OneTask(std::vector<std::int64_t> batches, std::vector<std::int64_t> workspaces) {
  GraphFamily family;
  family.graph.name = "one";
  family.graph.data = {{"x", 0, DataKind::kInput}, {"y", 0, DataKind::kActivation}};
  family.graph.tasks = {{.name = "task", .reads = {0}, .writes = {1}}};
  family.bytes_per_sample = {1, 1};
  family.batches = std::move(batches);
  family.costs = {{{"a", {1}, {0}}, {"b", {0.5}, std::move(workspaces)}}};
  return family;
}

// 8 samples without a workspace fit, 4 with one do not.
TEST(SubBatchChoice, OfAnswersThatAlternateTheLeastIsTaken) {
  const GraphFamily family = OneTask({1, 2, 4, 8, 16}, {0, 0, 20, 0, 0});
  ASSERT_EQ(ValidateFamily(family), absl::OkStatus());
  EXPECT_EQ(ChooseSubBatch(family, 16, 16, 1).value().sub_batch, 8);
  // By the workspace of 16 samples 8 fit, by that of 8 samples 4, and by that of 4 again 8.
  const GraphFamily other = OneTask({1, 2, 4, 8, 16}, {8, 0, 0, 8, 0});
  const SubBatchChoice choice = ChooseSubBatch(other, 16, 16, 1).value();
  EXPECT_EQ(choice.sub_batch, 4);
  EXPECT_TRUE(choice.keeps_rule);
}

TEST(SubBatchChoice, KeepsToTheBatchesOfATable) {
  const GraphFamily family = OneTask({4, 8}, {0, 0});
  EXPECT_EQ(ChooseSubBatch(family, 32, 1000, 1).value().sub_batch, 8);
  EXPECT_EQ(ChooseSubBatch(family, 32, 10, 1).value().sub_batch, 4);
  EXPECT_EQ(ChooseSubBatch(family, 2, 10, 1).status().code(), absl::StatusCode::kInvalidArgument);
  // A rest of 2 samples has no costs, one of 4 has.
  EXPECT_EQ(ChooseSubBatch(family, 12, 1000, 1).value().sub_batch, 8);
  EXPECT_EQ(ChooseSubBatch(family, 10, 1000, 1).value().sub_batch, 4);
}

// DATE's rule leaves less room than equation (8) asks for, so its sub-batches are larger.
TEST(SubBatchChoice, DatesRuleCountsTheLargestTaskAlone) {
  const GraphFamily family = FamilyOf("vgg-16");
  for (const std::int64_t gigabytes : {8, 4, 2}) {
    SubBatchOptions options = {.rule = SubBatchRule::kLargestTask};
    const std::int64_t memory = gigabytes * kGigabyte;
    const std::int64_t by_date =
        ChooseSubBatch(family, 256, memory, 512, options).value().sub_batch;
    options.rule = SubBatchRule::kConsecutiveTasks;
    EXPECT_GT(by_date, ChooseSubBatch(family, 256, memory, 512, options).value().sub_batch);
    EXPECT_LE(LeastMemory(GraphAt(family, by_date).value(), 512).bytes, memory);
  }
}

TEST(SubBatchChoice, RefusesSharesOutOfRange) {
  const GraphFamily family = OneTask({1}, {0});
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_EQ(ChooseSubBatch(family, 1, 100, 1, {.consecutive_share = share}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SubBatchRuleFromName("largest-task").value(), SubBatchRule::kLargestTask);
  EXPECT_EQ(SubBatchRuleFromName("least").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SubBatchChoice, KnowsBatchNormalisation) {
  EXPECT_TRUE(NormalizesOverBatch(GraphAt(FamilyOf("resnet-34"), 1).value()));
  EXPECT_FALSE(NormalizesOverBatch(GraphAt(FamilyOf("vgg-16"), 1).value()));
}

}  // namespace
}  // namespace tidepool
