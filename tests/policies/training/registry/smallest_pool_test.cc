// SPDX-License-Identifier: Apache-2.0
// Orders and placements tried for the smallest pool, against a plain loop.
#include "tidepool/training/smallest_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/support/vdnnpp_papers.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<AllocationOrder> kOrders = {AllocationOrder::kPrefetchFirst,
                                              AllocationOrder::kDerivativeFirst};

// Grows a pool as section IV-B tells.
std::int64_t GrownPool(const Trace& trace, const std::string& placement) {
  std::int64_t bytes = MeasureLoad(trace, 512)->peak_live_bytes;
  while (true) {
    const auto policy = MakePlacementPolicy(placement).value();
    const ReplayResult replay =
        Replay(trace, *policy, {.pool_bytes = bytes, .stop_at_refusal = true}).value();
    if (replay.refused == 0) return bytes;
    bytes += replay.first_refused_bytes - replay.largest_free_bytes;
  }
}

std::int64_t SlowPool(const TaskGraph& graph, const Schedule& schedule,
                      const std::string& placement) {
  const Trace trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce).value();
  if (placement != "planned") return GrownPool(trace, placement);
  return MakePlan(ToPlanProblem(trace, 512).value(), {.time_limit_seconds = 0})->height;
}

struct SlowChoice {
  std::vector<PoolTrial> trials;
  std::optional<std::size_t> best;
};

SlowChoice SlowSearch(const std::string& policy, const TaskGraph& graph,
                      testing::PoolPolicy options) {
  SlowChoice choice;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const AllocationOrder order : kOrders) {
    for (const std::string& placement : PlacementPolicyNames()) {
      options.order = order;
      options.machine.placing.placement = placement;
      const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, options);
      PoolTrial trial = {order, placement, -1, false};
      if (schedule.ok()) {
        trial.pool_bytes = SlowPool(graph, *schedule, placement);
        trial.fits = Simulate(graph, *schedule, options.machine).ok();
      }
      if (trial.fits && trial.pool_bytes < least) {
        least = trial.pool_bytes;
        choice.best = choice.trials.size();
      }
      choice.trials.push_back(trial);
    }
  }
  return choice;
}

void ExpectSlowChoice(const std::string& policy, const TaskGraph& graph,
                      const testing::PoolPolicy& options) {
  const SlowChoice slow = SlowSearch(policy, graph, options);
  const absl::StatusOr<SmallestPool> quick =
      MakeSmallestPool(policy, graph, RequestOf(options), kOrders, PlacementPolicyNames());
  ASSERT_EQ(quick.ok(), slow.best.has_value()) << quick.status();
  if (!quick.ok()) {
    EXPECT_EQ(quick.status().code(), absl::StatusCode::kResourceExhausted);
    return;
  }
  EXPECT_EQ(quick->trials, slow.trials);
  EXPECT_EQ(quick->best, *slow.best);
  testing::PoolPolicy best = options;
  best.order = slow.trials[*slow.best].order;
  best.machine.placing.placement = slow.trials[*slow.best].placement;
  EXPECT_EQ(quick->made.schedule, testing::MakePoolSchedule(policy, graph, best).value());
  EXPECT_EQ(quick->made.placing.placement, best.machine.placing.placement);
}

TEST(SmallestPool, IsThatOfAPlainLoop) {
  for (const auto& [network, batch] : {std::pair("alexnet", 256), std::pair("vgg16", 64)}) {
    const TaskGraph graph = testing::PaperGraph(network, batch);
    for (const char* mode :
         testing::Cases({"conv(p)", "conv(m)", "all(p)", "all(m)", "aconv(m)", "dynamic(p)"})) {
      for (const char* policy : {"none", "vdnn", "vdnn++"}) {
        SCOPED_TRACE(std::string(network) + " " + mode + " " + policy);
        ExpectSlowChoice(policy, graph, testing::PaperMode(mode));
      }
    }
  }
}

// Memories that some placements fit, and others not.
TEST(SmallestPool, FitsWhereAnyPlacementDoes) {
  const TaskGraph graph = testing::PaperGraph("alexnet", 256);
  testing::PoolPolicy options = testing::PaperMode("all(m)");
  for (const std::int64_t mib : {500, 1080, 1093, 1100, 1140, 1200, 1400}) {
    SCOPED_TRACE(mib);
    options.machine.memory() = mib << 20;
    ExpectSlowChoice("vdnn++", graph, options);
  }
}

TEST(SmallestPool, OfAnyGraphIsThatOfAPlainLoop) {
  const int rounds = testing::Rounds(100);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    testing::RandomGraphs graphs(static_cast<std::uint64_t>(seed));
    testing::PoolPolicy options = testing::PaperMode("all(p)");
    options.machine.memory() = std::int64_t{1} << (10 + graphs.Below(30));
    ExpectSlowChoice("vdnn++", graphs.Valid(1 + graphs.Below(20)), options);
  }
}

// With the orders and heuristics of Table V.
TEST(SmallestPool, TriesOnlyTheGivenOrdersAndPlacements) {
  const TaskGraph graph = testing::PaperGraph("vgg16", 64);
  const ScheduleRequest request = RequestOf(testing::PaperMode("conv(m)"));
  const SmallestPool one =
      MakeSmallestPool("vdnn", graph, request, {AllocationOrder::kDerivativeFirst}, {"best-fit"})
          .value();
  const SmallestPool four =
      MakeSmallestPool("vdnn", graph, request, kOrders, {"best-fit", "high-end-offload"}).value();
  ASSERT_EQ(one.trials.size(), 1);
  ASSERT_EQ(four.trials.size(), 4);
  EXPECT_EQ(one.trials[0], four.trials[2]);
  EXPECT_LT(four.trials[four.best].pool_bytes, one.trials[0].pool_bytes);
}

TEST(SmallestPool, PoliciesThatPlaceTheirDataHaveNoTrials) {
  const TaskGraph graph = testing::PaperGraph("alexnet", 128);
  const SmallestPool found =
      MakeSmallestPool("base", graph, RequestOf(testing::PaperMode("all(m)")), kOrders,
                       PlacementPolicyNames())
          .value();
  EXPECT_THAT(found.trials, IsEmpty());
  EXPECT_EQ(found.made.schedule.memory, ScheduleMemory::kFixed);
}

TEST(SmallestPool, RefusesWhatCannotBe) {
  const TaskGraph graph = testing::PaperGraph("alexnet", 128);
  const ScheduleRequest request = RequestOf(testing::PaperMode("all(m)"));
  const auto error = [&](const char* policy, absl::Span<const AllocationOrder> orders,
                         absl::Span<const std::string> placements) {
    return std::string(
        MakeSmallestPool(policy, graph, request, orders, placements).status().message());
  };
  EXPECT_THAT(error("vdnn", kOrders, {}), HasSubstr("2 orders and 0 placements, expected one"));
  EXPECT_THAT(error("vdnn", {}, {"best-fit"}), HasSubstr("0 orders and 1 placements"));
  EXPECT_THAT(error("vdnn", kOrders, {"worst-fit"}), HasSubstr("worst-fit"));
  EXPECT_THAT(error("some", kOrders, {"best-fit"}), HasSubstr("no offload policy 'some'"));
}

}  // namespace
}  // namespace tidepool
