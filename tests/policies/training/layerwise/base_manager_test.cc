// SPDX-License-Identifier: Apache-2.0
// The policy `base`: its addresses against the checker of addresses and a count of live gradients,
// and its memory against the paper's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/rounds.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kMoreThanAll = std::int64_t{1} << 44;

testing::PoolPolicy Options(std::int64_t memory = kMoreThanAll) {
  testing::PoolPolicy options;
  options.machine.memory() = memory;
  return options;
}

Timeline Simulated(const TaskGraph& graph, const testing::PoolPolicy& options) {
  const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule("base", graph, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *timeline;
}

bool TakesChunk(const GraphData& data) {
  return data.kind == DataKind::kGradient && !ExistsAfter(data);
}

// Counts by the steps alone.
std::size_t MostLiveGradients(const TaskGraph& graph, const Schedule& schedule) {
  std::size_t live = 0;
  std::size_t most = 0;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kRun || !TakesChunk(graph.data[step.index])) continue;
    live += step.kind == StepKind::kAllocate ? 1 : -1;
    most = std::max(most, live);
  }
  return most;
}

std::set<std::int64_t> OffsetsOfGradients(const TaskGraph& graph, const Schedule& schedule) {
  std::set<std::int64_t> offsets;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kAllocate) continue;
    if (TakesChunk(graph.data[step.index])) offsets.insert(step.offset);
  }
  return offsets;
}

void ExpectBase(const TaskGraph& graph) {
  const testing::PoolPolicy options = Options();
  const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule("base", graph, options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->policy, "base(p)");
  const absl::Status status = ValidateAddresses({&graph, 1}, *schedule, {options.machine.memory()});
  ASSERT_EQ(status, absl::OkStatus()) << graph.name;
  EXPECT_EQ(OffsetsOfGradients(graph, *schedule).size(), MostLiveGradients(graph, *schedule));
}

TEST(BaseManager, HasAsManyChunksAsLiveGradients) {
  for (const std::string& name : KnownModels()) ExpectBase(MakeModel(name, {.batch = 2}).value());
  const int rounds = testing::Rounds(200);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    testing::RandomGraphs graphs(static_cast<std::uint64_t>(seed));
    ExpectBase(graphs.Valid(1 + graphs.Below(20)));
    ExpectBase(graphs.ValidVersion2(1 + graphs.Below(20)));
  }
}

TEST(BaseManager, HasTwoChunksInNetworksOfLayersInARow) {
  for (const char* name : {"alexnet", "vgg-16", "vgg-191", "vdnnpp-table-3"}) {
    for (const auto backward : {BackwardTasks::kFused, BackwardTasks::kSplit}) {
      const TaskGraph graph = MakeModel(name, {.batch = 2, .backward = backward}).value();
      const Schedule schedule = testing::MakePoolSchedule("base", graph, Options()).value();
      EXPECT_EQ(OffsetsOfGradients(graph, schedule).size(), 2) << name;
    }
  }
}

TEST(BaseManager, TakesDataAtHomeOnTheHostAndBringsItBack) {
  for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
    const TaskGraph graph =
        MakeModel("resnet-18", {.batch = 2, .optimizer = Optimizer::kMomentum, .weights = weights})
            .value();
    ExpectBase(graph);
    const Timeline timeline = Simulated(graph, Options());
    EXPECT_EQ(timeline.bytes_out > 0, weights == DataHome::kHost);
    EXPECT_GT(timeline.bytes_in, 0);
  }
}

// Nothing is copied, so a task follows a task.
TEST(BaseManager, TakesTheTimeOfItsTasks) {
  const TaskGraph graph = MakeModel("vgg-16", testing::PaperModel(16)).value();
  EXPECT_NEAR(Simulated(graph, Options()).seconds, TotalsOf(graph).least_seconds, 1e-9);
  testing::PoolPolicy least = Options();
  least.algorithms = AlgorithmChoice::kLeastMemory;
  EXPECT_NEAR(Simulated(graph, least).seconds, TotalsOf(graph).least_workspace_seconds, 1e-9);
}

TEST(BaseManager, RefusesAMemoryThatIsTooSmall) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 16}).value();
  const std::int64_t needed = Simulated(graph, Options()).pool_bytes;
  EXPECT_EQ(Simulated(graph, Options(needed)).pool_bytes, needed);
  const absl::Status status =
      testing::MakePoolSchedule("base", graph, Options(needed - 1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("and a workspace need"), HasSubstr("the memory has")));
}

// The set `dynamic` takes the largest workspaces that fit, and no more.
TEST(BaseManager, LeavesOutWorkspacesThatDoNotFit) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 16}).value();
  testing::PoolPolicy options = Options();
  options.algorithms = AlgorithmChoice::kLeastMemory;
  const std::int64_t least = Simulated(graph, options).pool_bytes;
  options.set = OffloadSet::kDynamic;
  const std::int64_t most = Simulated(graph, options).pool_bytes;
  ASSERT_LT(least, most);
  double last = Simulated(graph, Options(most)).seconds;
  for (std::int64_t memory = most; memory >= least; memory -= (most - least) / 20) {
    options.machine.memory() = memory;
    const Timeline timeline = Simulated(graph, options);
    EXPECT_LE(timeline.pool_bytes, memory);
    EXPECT_GE(timeline.seconds, last);
    last = timeline.seconds;
  }
}

double Gibibytes(const std::string& network, std::int64_t batch) {
  testing::PoolPolicy options = Options();
  options.algorithms = AlgorithmChoice::kLeastMemory;
  const TaskGraph graph =
      MakeModel(network, {.batch = batch, .fused_batch_normalization = true}).value();
  return static_cast<double>(Simulated(graph, options).pool_bytes) / (1 << 30);
}

// vDNN++, sections I and V-A: "1.1GB", "about 20GB and 30GB".
TEST(BaseManager, NeedsTheMemoryThatThePaperTells) {
  EXPECT_NEAR(Gibibytes("alexnet", 128), 1.1, 0.05);
  EXPECT_NEAR(Gibibytes("vgg-116", 32), 20, 1);
  EXPECT_NEAR(Gibibytes("vgg-191", 32), 30, 1);
}

}  // namespace
}  // namespace tidepool
