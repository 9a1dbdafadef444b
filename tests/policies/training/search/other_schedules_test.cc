// SPDX-License-Identifier: Apache-2.0
// `best` asks the rows of any table by their traits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/requests/policy_table.h"
#include "policies/training/search/best_policy.h"
#include "tests/support/sizes.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::search {
namespace {

using requests::OffloadPolicy;
using ::testing::ElementsAre;

ScheduleRequest RequestWith(std::int64_t memory_bytes, bool recomputes) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.memory = ScheduleMemory::kPaged;
  request.options =
      BestOptions{.time_limit_seconds = 1000, .work_seconds = 0.01, .recomputes = recomputes};
  return request;
}

TEST(OtherSchedules, EveryRowIsAskedForTheOptionsThatItNames) {
  constexpr std::int64_t kMemoryBytes = 350 * kMiB;
  const TaskGraph graph = MakeModel("alexnet", {.batch = 64}).value();
  std::vector<std::string> asked;
  const requests::MakeForGraph make =
      [&](std::string_view policy, const TaskGraph& /*graph*/,
          const ScheduleRequest& request) -> absl::StatusOr<Schedule> {
    const auto* layers = std::get_if<LayerwiseOptions>(&request.options);
    const bool sends_all = layers != nullptr && layers->set == OffloadSet::kAll;
    // Where nothing fits, larger memories are tried.
    if (request.machine.devices.front().memory_bytes == kMemoryBytes) {
      asked.push_back(std::string(policy) + (sends_all ? ", all" : "") +
                      (request.memory == ScheduleMemory::kFixed ? ", fixed" : ""));
    }
    return absl::ResourceExhaustedError("no room");
  };
  const std::vector<OffloadPolicy> table = {
      {.name = "again",
       .make_round = make,
       .recomputes = true,
       .tried_by_best = {GraphChainOptions()}},
      {.name = "addressed",
       .make_round = make,
       .rounds_keep_addresses = true,
       .tried_by_best = {ModnnOptions()}},
      {.name = "pool",
       .make_pooled = make,
       .tried_by_best = {LayerwiseOptions(), LayerwiseOptions{.set = OffloadSet::kAll}}},
      {.name = "fixed", .make_fixed = make, .tried_by_best = {LayerwiseOptions()}},
      {.name = "left out", .make_round = make},
  };
  (void)MakeBest(table, graph, RequestWith(kMemoryBytes, true));
  EXPECT_THAT(asked, ElementsAre("pool", "pool, all", "fixed", "addressed, fixed", "again"));
  asked.clear();
  (void)MakeBest(table, graph, RequestWith(kMemoryBytes, false));
  EXPECT_THAT(asked, ElementsAre("pool", "pool, all", "fixed", "addressed, fixed"));
}

// Returns a chain of operations forwards and backwards, a task each, with activations of many
// sizes.
TaskGraph ChainOf(std::size_t operations) {
  TaskGraph graph;
  graph.name = "chain";
  graph.data.push_back({"input", kMiB, DataKind::kInput});
  for (std::size_t i = 0; i < operations; ++i) {
    const auto units = static_cast<std::int64_t>(1 + i * 7919 % 1000);
    graph.data.push_back({absl::StrCat("activation ", i), units * kMiB / 500});
    graph.tasks.push_back({.name = absl::StrCat("forward ", i),
                           .reads = {i},
                           .writes = {i + 1},
                           .algorithms = {{"only", 1e-5, 0}}});
  }
  for (std::size_t i = operations; i-- > 0;) {
    graph.data.push_back({absl::StrCat("gradient ", i), kMiB, DataKind::kGradient});
    std::vector<std::size_t> reads = {i, i + 1};
    if (i + 1 < operations) reads.push_back(graph.data.size() - 2);
    graph.tasks.push_back({.name = absl::StrCat("backward ", i),
                           .phase = TaskPhase::kBackward,
                           .reads = std::move(reads),
                           .writes = {graph.data.size() - 1},
                           .algorithms = {{"only", 1e-5, 0}}});
  }
  return graph;
}

// They take time in the square of the tasks, and look at no clock.
TEST(OtherSchedules, LongRowsWithAddressesAreLeftOutOfAShortTimeLimitOnceThereIsASchedule) {
  struct Answer {
    int asked = 0;
    bool was_late = false;
  };
  const auto ask = [](std::size_t operations, bool has_known, double time_limit_seconds) {
    const TaskGraph graph = ChainOf(operations);
    const auto memory_bytes = static_cast<std::int64_t>(operations) * kMiB / 8;
    Answer answer;
    const std::vector<OffloadPolicy> table = {
        {.name = "addressed",
         .make_round = [&](std::string_view /*policy*/, const TaskGraph& /*graph*/,
                           const ScheduleRequest& request) -> absl::StatusOr<Schedule> {
           if (request.machine.devices.front().memory_bytes == memory_bytes) ++answer.asked;
           return absl::ResourceExhaustedError("no room");
         },
         .rounds_keep_addresses = true,
         .tried_by_best = {ModnnOptions()}}};
    ScheduleRequest request = RequestWith(memory_bytes, false);
    auto& options = std::get<BestOptions>(request.options);
    if (has_known) options.known = {MakeBest({}, graph, request).value()};
    options.time_limit_seconds = time_limit_seconds;
    options.was_late = &answer.was_late;
    EXPECT_EQ(MakeBest(table, graph, request).ok(), has_known);
    return answer;
  };
  constexpr double kNoTime = 1e-9;
  constexpr double kMuchTime = 1000;
  const Answer left_out = ask(1500, true, kNoTime);
  EXPECT_EQ(left_out.asked, 0);
  EXPECT_TRUE(left_out.was_late);
  EXPECT_EQ(ask(1500, true, kMuchTime).asked, 1);
  EXPECT_EQ(ask(1500, false, kNoTime).asked, 1);
  EXPECT_EQ(ask(100, true, kNoTime).asked, 1);
}

TEST(OtherSchedules, TheFastestOfTheRowsIsTheAnswer) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 2}).value();
  const std::vector<OffloadPolicy> table = {
      {.name = "mine", .make_round = layerwise::MakeStaying, .tried_by_best = {std::monostate()}}};
  const absl::StatusOr<Schedule> made =
      MakeBest(table, graph, RequestWith(64 * 1024 * kMiB, false));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy, "best: none");
}

}  // namespace
}  // namespace tidepool::search
