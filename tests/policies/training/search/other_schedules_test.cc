// SPDX-License-Identifier: Apache-2.0
// `best` asks the rows of any table by their traits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
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
