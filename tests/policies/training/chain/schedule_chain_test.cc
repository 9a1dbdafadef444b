// SPDX-License-Identifier: Apache-2.0
// Schedules of chains on their graphs: valid, within the memory, and no slower than on the chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "policies/training/chain/transfer_schedule.h"
#include "tests/policies/training/chain/random_outputs.h"
#include "tests/policies/training/chain/simulated_seconds.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/lasting_graphs.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RandomChains;

constexpr std::int64_t kMuch = std::int64_t{1} << 59;

// Returns the time of the copies of inputs from the host, which chains do not have.
double SecondsOfInputs(const TaskGraph& graph, const Chain& chain) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) bytes += data.before == DataHome::kHost ? data.bytes : 0;
  return static_cast<double>(bytes) / chain.link_bytes_per_second;
}

// Returns the tasks that run again and make no data that is read before it is made once more.
std::vector<std::string> UnreadRuns(const TaskGraph& graph, const Schedule& schedule) {
  std::vector<std::string> unread;
  std::vector<bool> has_run(graph.tasks.size());
  std::vector<std::size_t> last_run(graph.data.size());  // the step that made the datum last
  std::vector<bool> is_read(schedule.steps.size());
  for (std::size_t step = 0; step < schedule.steps.size(); ++step) {
    if (schedule.steps[step].kind != StepKind::kRun) continue;
    const GraphTask& task = graph.tasks[schedule.steps[step].index];
    for (const std::size_t data : task.reads) is_read[last_run[data]] = true;
    for (const std::size_t data : task.updates) is_read[last_run[data]] = true;
    for (const std::size_t data : task.writes) last_run[data] = step;
  }
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (ExistsAfter(graph.data[data])) is_read[last_run[data]] = true;
  }
  for (std::size_t step = 0; step < schedule.steps.size(); ++step) {
    if (schedule.steps[step].kind != StepKind::kRun) continue;
    const std::size_t task = schedule.steps[step].index;
    if (has_run[task] && !is_read[step]) unread.push_back(graph.tasks[task].name);
    has_run[task] = true;
  }
  return unread;
}

// Expects that the schedule of a policy runs on the graph, in the memory of the chain and its time.
// Returns how many tasks run again; -1 where the policy finds no schedule.
int RunsAgain(const char* policy, const TaskGraph& graph, const GraphChain& made) {
  const absl::StatusOr<ChainSchedule> chain = MakeChainSchedule(policy, made.chain, {});
  if (!chain.ok()) return -1;
  const absl::StatusOr<Schedule> schedule = ScheduleChain(graph, made, *chain);
  const double seconds = testing::SimulatedSeconds(graph, made, schedule);
  if (seconds < 0) return 0;
  EXPECT_EQ(schedule->policy, policy);
  EXPECT_THAT(UnreadRuns(graph, *schedule), IsEmpty());
  EXPECT_LE(seconds, (chain->seconds + SecondsOfInputs(graph, made.chain)) * (1 + 1e-9));
  std::size_t runs = 0;
  for (const ScheduleStep& step : schedule->steps) runs += step.kind == StepKind::kRun ? 1 : 0;
  return static_cast<int>(runs - graph.tasks.size());
}

TEST(ScheduleChain, RunsRandomChains) {
  RandomChains random(31);
  int again = 0;
  int outputs = 0;
  const int rounds = testing::Rounds(400);
  for (int i = 0; i < rounds; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(7)) + 1);
    if (i % 2 == 1) testing::AddOutputs(random, chain);
    if (i % 3 == 0) random.LetGradientsStay(chain);
    const TaskGraph graph = *FromChain(chain);
    GraphChain made = *ToChain(graph, {.memory_bytes = kMuch, .recomputation = true});
    const std::int64_t least = LeastChainMemory(made.chain);
    made.chain.memory_bytes = least + (ChainPeak(made.chain) - least) * random.Below(5) / 4;
    SCOPED_TRACE(ChainJson(made.chain));
    for (const char* policy : {"greedy", "recompute", "pofo"}) {
      const int runs = RunsAgain(policy, graph, made);
      again += runs > 0 ? 1 : 0;
      outputs += runs > 0 && !chain.output.empty() ? 1 : 0;
    }
  }
  EXPECT_GE(again, rounds / 4);
  EXPECT_GE(outputs, rounds / 10);
}

// Each half of a schedule has its own rounded times. An operation or a copy of no time must be on
// its side of those that it waits for.
TEST(ScheduleChain, RunsChainsOfRoundedTimes) {
  RandomChains random(32);
  for (int i = 0; i < testing::Rounds(150); ++i) {
    Chain chain = random.RoundedSeconds(static_cast<std::size_t>(random.Below(8)) + 1);
    if (i % 3 == 0) chain.memory_bytes = LeastChainMemory(chain);
    if (i % 4 == 3) testing::AddOutputs(random, chain);
    SCOPED_TRACE(ChainJson(chain));
    const TaskGraph graph = *FromChain(chain);
    GraphChain made = *ToChain(graph, {.memory_bytes = kMuch, .recomputation = true});
    made.chain.memory_bytes = chain.memory_bytes;
    for (const std::string& policy : ChainPolicyNames()) {
      SCOPED_TRACE(policy);
      const bool recomputes = random.Chance(0.5);
      const auto schedule = MakeChainSchedule(policy, chain, {.recomputes = recomputes});
      ASSERT_TRUE(schedule.ok() || policy == "tflms" || policy == "recompute") << schedule.status();
      if (schedule.ok()) {
        EXPECT_EQ(CheckChainSchedule(chain, *schedule), absl::OkStatus());
      }
      RunsAgain(policy.c_str(), graph, made);
    }
  }
}

// Transformers' tasks may run again, and most tasks of convolutional networks may not, because they
// change data in place.
TEST(ScheduleChain, RunsNetworks) {
  int again = 0;
  for (const char* name : testing::Cases({"resnet-18", "gpt-2", "bert-base", "vgg-16"})) {
    SCOPED_TRACE(name);
    TaskGraph graph = *MakeModel(name, {.batch = 4});
    for (GraphData& data : graph.data) {
      if (data.kind == DataKind::kInput) data.before = DataHome::kDevice;
    }
    GraphChain made = *ToChain(graph, {.memory_bytes = kMuch, .recomputation = true});
    const std::int64_t least = LeastChainMemory(made.chain);
    made.chain.memory_bytes = least + (ChainPeak(made.chain) - least) / 3;
    for (const char* policy : {"recompute", "pofo"}) {
      again += RunsAgain(policy, graph, made) > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(again, testing::Rounds(3));
}

// Tasks that draw random numbers run once, and the others of their parts again.
TEST(ScheduleChain, RunsPartsAgainWithoutTheirRandomTasks) {
  TaskGraph graph = *MakeModel("gpt-2", {.batch = 4});
  testing::AddMasks(graph, std::int64_t{1} << 20);
  GraphChain made = *ToChain(graph, {.memory_bytes = kMuch, .recomputation = true});
  const std::int64_t least = LeastChainMemory(made.chain);
  made.chain.memory_bytes = least + (ChainPeak(made.chain) - least) / 3;
  for (const char* policy : {"recompute", "pofo"}) {
    EXPECT_GT(RunsAgain(policy, graph, made), 0) << policy;
  }
}

TEST(ScheduleChain, RefusesTasksThatMayNotRunAgain) {
  const Chain chain{.forward_seconds = {1, 1},
                    .backward_seconds = {1, 1},
                    .forward_extra = {0, 0},
                    .backward_extra = {0, 0},
                    .x = {1, 1, 1},
                    .y = {0, 0, 0},
                    .link_bytes_per_second = 1,
                    .memory_bytes = 100};
  TaskGraph graph = *FromChain(chain);
  const GraphChain made = *ToChain(graph, {.memory_bytes = 100, .recomputation = true});
  const ChainSchedule twice{.steps = {{ChainAction::kForward, 0, 0},
                                      {ChainAction::kDrop, 1, 1},
                                      {ChainAction::kForward, 0, 1},
                                      {ChainAction::kForward, 1, 2},
                                      {ChainAction::kBackward, 1, 3},
                                      {ChainAction::kBackward, 0, 4}},
                            .seconds = 5};
  EXPECT_TRUE(ScheduleChain(graph, made, twice).ok()) << ScheduleChain(graph, made, twice).status();
  EXPECT_FALSE(ScheduleChain(graph, made, twice, 0).ok());
  graph.tasks[0].may_rerun = false;
  const absl::Status status = ScheduleChain(graph, made, twice).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'F0' may not run again"));
}

TEST(ScheduleChain, TellsWhyThereIsNone) {
  const Chain chain{.forward_seconds = {1, 1, 1, 1},
                    .backward_seconds = {1, 1, 1, 1},
                    .forward_extra = {0, 0, 0, 0},
                    .backward_extra = {0, 0, 0, 0},
                    .x = {10, 10, 10, 10, 10},
                    .y = {0, 0, 0, 0, 0},
                    .link_bytes_per_second = 10,
                    .memory_bytes = 41};
  TaskGraph graph = *FromChain(chain);
  GraphChain made = *ToChain(graph, {.memory_bytes = 41});
  const ChainSchedule first = chain_policies::ScheduleSet(made.chain, {{0}}).value();
  EXPECT_TRUE(ScheduleChain(graph, made, first).ok());
  // Sizes of 16 bytes instead of 10 do not fit.
  const Schedule granules = ScheduleChain(graph, made, first, 16).value();
  EXPECT_EQ(LowerSchedule({&graph, 1}, granules, testing::MachineOfChain(made)).status().code(),
            absl::StatusCode::kResourceExhausted);
  graph.data.push_back({.name = "w",
                        .bytes = 1,
                        .kind = DataKind::kWeight,
                        .before = DataHome::kHost,
                        .after = DataHome::kHost});
  graph.tasks.front().reads.push_back(graph.data.size() - 1);
  made = *ToChain(graph, {.memory_bytes = 42});
  EXPECT_THAT(std::string(ScheduleChain(graph, made, first).status().message()),
              HasSubstr("'w' is at home on the host"));
}

}  // namespace
}  // namespace tidepool
