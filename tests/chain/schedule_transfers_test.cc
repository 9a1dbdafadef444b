// SPDX-License-Identifier: Apache-2.0
// Schedules of the transfers of chains: they are valid, and move exactly the useful activations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/chain/random_chain.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomChains;

std::vector<std::string> NamesOf(const TaskGraph& graph, const Schedule& schedule, StepKind kind) {
  std::vector<std::string> names;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == kind) names.push_back(graph.data[step.index].name);
  }
  return names;
}

// Four operations of a second, and a link that moves an activation in a second. The memory of
// F_2 and B_2 has room for one activation less than there are.
Chain TightChain() {
  return {.forward_seconds = {1, 1, 1, 1},
          .backward_seconds = {1, 1, 1, 1},
          .forward_extra = {0, 0, 0, 0},
          .backward_extra = {0, 0, 0, 0},
          .x = {10, 10, 10, 10, 10},
          .y = {0, 0, 0, 0, 0},
          .link_bytes_per_second = 10,
          .memory_bytes = 41};
}

struct Lowered {
  TaskGraph graph;
  GraphChain made;
  absl::StatusOr<Schedule> schedule;
};

Lowered Lower(const Chain& chain, const ChainTransfers& transfers) {
  Lowered lowered = {*FromChain(chain), {}, absl::UnknownError("")};
  const bool has_order = lowered.graph.data.back().name == "order";
  lowered.made =
      *ToChain(lowered.graph, {.memory_bytes = chain.memory_bytes + (has_order ? 1 : 0)});
  lowered.schedule = ScheduleTransfers(lowered.graph, lowered.made, transfers);
  return lowered;
}

TEST(ScheduleTransfers, MovesTheActivationsInTheirOrder) {
  const Lowered lowered = Lower(TightChain(), {{1, 0}, {0, 1}});
  ASSERT_TRUE(lowered.schedule.ok()) << lowered.schedule.status();
  const Schedule& schedule = *lowered.schedule;
  EXPECT_EQ(schedule.memory, ScheduleMemory::kPaged);
  EXPECT_EQ(schedule.alignment, 1);
  EXPECT_THAT(NamesOf(lowered.graph, schedule, StepKind::kOffload), ElementsAre("x1", "x0"));
  EXPECT_THAT(NamesOf(lowered.graph, schedule, StepKind::kDrop), ElementsAre("x1", "x0"));
  EXPECT_THAT(NamesOf(lowered.graph, schedule, StepKind::kPrefetch), ElementsAre("x0", "x1"));
  const absl::Status status = ValidateSchedule(lowered.graph, schedule);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ScheduleTransfers, LeavesUselessTransfersOut) {
  // x_3 would have to come back for B_3 while F_3 still uses it; x_2 has no bytes.
  Chain chain = TightChain();
  chain.forward_seconds[3] = 5;
  chain.x[2] = 0;
  const Lowered lowered = Lower(chain, {{0, 2, 3}, {3, 2, 0}});
  ASSERT_TRUE(lowered.schedule.ok()) << lowered.schedule.status();
  EXPECT_THAT(NamesOf(lowered.graph, *lowered.schedule, StepKind::kOffload), ElementsAre("x0"));
  EXPECT_THAT(NamesOf(lowered.graph, *lowered.schedule, StepKind::kPrefetch), ElementsAre("x0"));
}

TEST(ScheduleTransfers, AreValidForRandomChains) {
  RandomChains random(3);
  int schedules = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t operations = static_cast<std::size_t>(random.Below(9)) + 1;
    const Chain chain = random.Next(operations);
    const ChainTransfers transfers = random.Transfers(operations);
    const Lowered lowered = Lower(chain, transfers);
    SCOPED_TRACE(ChainJson(chain));
    ASSERT_EQ(lowered.schedule.ok(), PlaceTransfers(chain, transfers).ok())
        << lowered.schedule.status();
    if (!lowered.schedule.ok()) continue;
    const absl::Status status = ValidateSchedule(lowered.graph, *lowered.schedule);
    ASSERT_TRUE(status.ok()) << status;
    ++schedules;
  }
  EXPECT_GT(schedules, 1000);
}

// Returns the activations that hold the peak, from the first on, until the chain fits.
std::vector<std::size_t> FirstActivations(const Chain& chain) {
  std::vector<std::size_t> set;
  std::int64_t missing = ChainPeak(chain) - chain.memory_bytes;
  for (std::size_t i = 0; i + 1 < chain.x.size() && missing > 0; ++i) {
    missing -= chain.x[i];
    set.push_back(i);
  }
  return set;
}

TEST(ScheduleTransfers, AreValidForEveryModel) {
  for (const std::string& name : KnownModels()) {
    if (name.starts_with("lstm")) continue;  // one part has nearly all of its memory
    SCOPED_TRACE(name);
    const TaskGraph graph = *MakeModel(name, {.batch = 4});
    GraphChain made = *ToChain(graph, {.memory_bytes = kMuchMemory});
    const std::int64_t least = LeastChainMemory(made.chain);
    made.chain.memory_bytes = least + (ChainPeak(made.chain) - least) / 2;
    const ChainTransfers transfers = OrderedTransfers(FirstActivations(made.chain));
    ASSERT_TRUE(PlaceTransfers(made.chain, transfers).ok());
    const absl::StatusOr<Schedule> schedule = ScheduleTransfers(graph, made, transfers);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const absl::Status status = ValidateSchedule(graph, *schedule);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_FALSE(NamesOf(graph, *schedule, StepKind::kPrefetch).empty());
  }
}

TEST(ScheduleTransfers, TellWhyThereIsNone) {
  TaskGraph graph = *FromChain(TightChain());
  GraphChain made = *ToChain(graph, {.memory_bytes = 41});
  EXPECT_EQ(ScheduleTransfers(graph, made, {}).status().code(),
            absl::StatusCode::kResourceExhausted);
  const ChainTransfers first = OrderedTransfers(std::vector<std::size_t>{0});
  EXPECT_TRUE(ScheduleTransfers(graph, made, first).ok());
  // Sizes of 16 bytes instead of 10 do not fit.
  const absl::Status granules = ScheduleTransfers(graph, made, first, 16).status();
  EXPECT_EQ(granules.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(granules.message()), HasSubstr("too small for granules of 16 bytes"));
  EXPECT_FALSE(ScheduleTransfers(graph, made, first, 0).ok());
  graph.data.push_back({.name = "w",
                        .bytes = 1,
                        .kind = DataKind::kWeight,
                        .before = DataHome::kHost,
                        .after = DataHome::kHost});
  graph.tasks.front().reads.push_back(graph.data.size() - 1);
  made = *ToChain(graph, {.memory_bytes = 42});
  EXPECT_THAT(std::string(ScheduleTransfers(graph, made, first).status().message()),
              HasSubstr("'w' is at home on the host"));
}

}  // namespace
}  // namespace tidepool
