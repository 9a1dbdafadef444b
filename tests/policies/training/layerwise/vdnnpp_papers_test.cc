// SPDX-License-Identifier: Apache-2.0
// The figures of vDNN++ (Shriram et al., IPDPS 2019) that follow from its text.
#include "tests/support/vdnnpp_papers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/pool_schedule.h"
#include "tests/support/rounds.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

constexpr double kBytesInMiB = 1024.0 * 1024;

struct Entry {
  const char* model;
  std::int64_t batch;
  const char* mode;
  double mib;
};

std::string NameOf(const Entry& entry) {
  return std::string(entry.model) + "(" + std::to_string(entry.batch) + ") " + entry.mode;
}

Trace TraceOf(const Entry& entry) {
  return testing::PaperTrace(testing::PaperGraph(entry.model, entry.batch),
                             testing::PaperMode(entry.mode));
}

double AggregateOf(const Trace& trace) {
  return static_cast<double>(MeasureLoad(trace, 512)->peak_live_bytes);
}

// Tables II and V.
constexpr Entry kAggregates[] = {
    {"alexnet", 128, "conv(p)", 1188},  {"alexnet", 128, "conv(m)", 710},
    {"alexnet", 128, "all(p)", 1113},   {"alexnet", 128, "all(m)", 667},
    {"alexnet", 256, "conv(p)", 1934},  {"alexnet", 256, "conv(m)", 1184},
    {"alexnet", 256, "all(p)", 1783},   {"alexnet", 256, "all(m)", 1100},
    {"alexnet", 256, "aconv(p)", 1934}, {"alexnet", 256, "aconv(m)", 1184},
    {"vgg16", 16, "conv(p)", 1610},     {"vgg16", 16, "conv(m)", 1323},
    {"vgg16", 16, "all(p)", 1414},      {"vgg16", 16, "all(m)", 1323},
    {"vgg16", 64, "conv(p)", 7243},     {"vgg16", 64, "conv(m)", 3715},
    {"vgg16", 64, "all(p)", 7243},      {"vgg16", 64, "all(m)", 3715},
    {"vgg16", 64, "aconv(p)", 7243},    {"vgg16", 64, "aconv(m)", 4010},
};

TEST(VdnnppPapers, AggregatesAreWithinOnePercent) {
  for (const Entry& entry : kAggregates) {
    EXPECT_NEAR(AggregateOf(TraceOf(entry)) / kBytesInMiB, entry.mib, 0.01 * entry.mib)
        << NameOf(entry);
  }
}

// Section III-C: all that is out at once, at the end of the forward pass.
TEST(VdnnppPapers, PinnedMemoryIsWithinAThousandth) {
  for (const Entry& entry :
       {Entry{"alexnet", 128, "all(m)", 453}, Entry{"vgg16", 128, "all(m)", 7436}}) {
    const TaskGraph graph = testing::PaperGraph(entry.model, entry.batch);
    const testing::PoolPolicy options = testing::PaperMode(entry.mode);
    const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule("vdnn++", graph, options);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_NEAR(static_cast<double>(timeline->peak_host_bytes) / kBytesInMiB, entry.mib,
                0.001 * entry.mib)
        << NameOf(entry);
  }
}

// Section III-A, figure 6: the pool is done long before its input has left, and the convolutions
// after it hide both transfers.
TEST(VdnnppPapers, TransferOfPool3IsHiddenByTheNextConvolution) {
  constexpr double kLink = 13.26e9;  // 2 x 392 MiB in the 62 ms of Table I
  const TaskGraph graph = MakeModel("vgg-16", testing::PaperModel(64, "gtx-1080-ti")).value();
  const auto seconds = [&](const std::string& name) {
    const auto task = std::ranges::find(graph.tasks, name, &GraphTask::name);
    return std::pair(task->algorithms.front().seconds,
                     static_cast<double>(graph.data[task->reads.front()].bytes) / kLink);
  };
  const auto [pool, pool_transfer] = seconds("pool3.forward");
  const auto [convolution, transfer] = seconds("conv4_1.forward");
  EXPECT_LT(10 * pool, pool_transfer);
  EXPECT_GT(convolution, transfer);
  EXPECT_GT(convolution, pool_transfer + transfer);
}

// Table III names a batch of 256. Its outputs alone are three times the GPU's 11 GB.
TEST(VdnnppPapers, TableThreesNetworkFitsWith64SamplesOnly) {
  const auto outputs = [](std::int64_t batch) {
    return TotalsOf(MakeModel("vdnnpp-table-3", testing::PaperModel(batch)).value()).activations;
  };
  EXPECT_LT(outputs(64), std::int64_t{11} << 30);
  EXPECT_GT(outputs(256), std::int64_t{33} << 30);
}

// Table IV: aconv(p) fits in 11 GB for VGG-116, not for VGG-191, and `dyn` is the fastest mode.
TEST(VdnnppPapers, DynamicIsTheFastestModeOfTableFour) {
  const auto seconds = [](const char* model, const char* mode) {
    const TaskGraph graph = MakeModel(model, testing::PaperModel(32, "gtx-1080-ti")).value();
    testing::PoolPolicy options = testing::PaperMode(mode);
    options.machine.memory() = std::int64_t{11} << 30;
    options.machine.placing.placement = "planned";
    const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule("vdnn++", graph, options);
    if (!schedule.ok()) return std::numeric_limits<double>::infinity();
    const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
    return timeline.ok() ? timeline->seconds : std::numeric_limits<double>::infinity();
  };
  EXPECT_LT(seconds("vgg-116", "aconv(p)"), seconds("vgg-116", "conv(p)"));
  EXPECT_LT(seconds("vgg-116", "conv(p)"), seconds("vgg-116", "all(p)"));
  EXPECT_LE(seconds("vgg-116", "dynamic(p)"), seconds("vgg-116", "aconv(p)"));
  EXPECT_EQ(seconds("vgg-191", "aconv(p)"), std::numeric_limits<double>::infinity());
  EXPECT_LE(seconds("vgg-191", "dynamic(p)"), seconds("vgg-191", "conv(p)"));
}

// Table II, without the memory that a context takes.
TEST(VdnnppPapers, ActualPoolsAreWithinOnePercent) {
  constexpr double kContextMiB = 179.5;
  for (const Entry& entry : {
           Entry{"alexnet", 128, "conv(p)", 1844},
           Entry{"alexnet", 128, "conv(m)", 1121},
           Entry{"alexnet", 128, "all(p)", 1769},
           Entry{"alexnet", 128, "all(m)", 987},
           Entry{"vgg16", 16, "conv(p)", 2231},
           Entry{"vgg16", 16, "conv(m)", 1893},
           Entry{"vgg16", 16, "all(p)", 2035},
           Entry{"vgg16", 16, "all(m)", 1697},
       }) {
    const Trace trace = TraceOf(entry);
    const std::int64_t pools =
        testing::GrownBySeparatePools(trace, MeasureLoad(trace, 512)->peak_live_bytes);
    EXPECT_NEAR(static_cast<double>(pools) / kBytesInMiB + kContextMiB, entry.mib, 0.01 * entry.mib)
        << NameOf(entry);
  }
}

// Table V, best-fit.
TEST(VdnnppPapers, SmallestPoolsOfVgg16AreWithinTwoPercent) {
  struct Pools {
    const char* mode;
    double prefetch_first;
    double derivative_first;
  };
  const TaskGraph graph = testing::PaperGraph("vgg16", 64);
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy("best-fit").value();
  for (const Pools& pools :
       {Pools{"conv(m)", 4302, 4107}, Pools{"all(m)", 3812, 4795}, Pools{"aconv(m)", 4155, 4073}}) {
    for (const auto order : {AllocationOrder::kPrefetchFirst, AllocationOrder::kDerivativeFirst}) {
      testing::PoolPolicy options = testing::PaperMode(pools.mode);
      options.order = order;
      const absl::StatusOr<MinimumPoolResult> pool =
          MinimumPool(testing::PaperTrace(graph, options), *policy, {});
      ASSERT_TRUE(pool.ok()) << pool.status();
      const double paper =
          order == AllocationOrder::kPrefetchFirst ? pools.prefetch_first : pools.derivative_first;
      EXPECT_NEAR(static_cast<double>(pool->pool_bytes) / kBytesInMiB, paper, 0.02 * paper)
          << pools.mode;
    }
  }
}

// Where best-fit needs up to half as much again.
TEST(VdnnppPapers, PlannedPoolsAreWithinOnePercentOfTheAggregate) {
  for (const Entry& entry : kAggregates) {
    const Trace trace = TraceOf(entry);
    const absl::StatusOr<Plan> plan =
        MakePlan(ToPlanProblem(trace, 512).value(), {.time_limit_seconds = 5});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(static_cast<double>(plan->height), 1.01 * AggregateOf(trace)) << NameOf(entry);
  }
}

// Section V-A: it is at least as good, with as much memory as vDNN needs at least under best-fit.
// The time is the least of two placements.
TEST(VdnnppPapers, VdnnppIsNeverSlowerThanVdnn) {
  const std::vector<std::string> models = KnownModels();
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy("best-fit").value();
  const auto count = static_cast<std::size_t>(testing::Rounds(static_cast<int>(models.size())));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& model = models[i * models.size() / count];
    const TaskGraph graph = MakeModel(model, {.batch = 16, .gpu = "gtx-1080-ti"}).value();
    for (const char* mode : {"conv(p)", "conv(m)", "all(p)", "all(m)", "aconv(p)", "aconv(m)"}) {
      testing::PoolPolicy options = testing::PaperMode(mode);
      const Schedule vdnn = testing::MakePoolSchedule("vdnn", graph, options).value();
      const Schedule vdnnpp = testing::MakePoolSchedule("vdnn++", graph, options).value();
      options.machine.memory() =
          MinimumPool(ScheduleTrace(graph, vdnn).value(), *policy, {.most_steps = 0})->pool_bytes;
      for (const double link : {4e9, 16e9, 64e9}) {
        options.machine.SetRate(link);
        options.machine.placing.placement = "best-fit";
        const absl::StatusOr<Timeline> theirs = Simulate(graph, vdnn, options.machine);
        const absl::StatusOr<Timeline> ours = Simulate(graph, vdnnpp, options.machine);
        options.machine.placing.placement = "planned";
        const absl::StatusOr<Timeline> planned = Simulate(graph, vdnnpp, options.machine);
        ASSERT_TRUE(theirs.ok()) << model << " " << mode << " " << theirs.status();
        ASSERT_TRUE(ours.ok()) << model << " " << mode << " " << ours.status();
        ASSERT_TRUE(planned.ok()) << model << " " << mode << " " << planned.status();
        EXPECT_LE(std::min(ours->seconds, planned->seconds), theirs->seconds * (1 + 1e-9))
            << model << " " << mode;
      }
    }
  }
}

// Table III's network of convolutions of 1 x 1 between some of 5 x 5, at a batch that fits.
TEST(VdnnppPapers, ShortLayersBetweenLongOnesCostVdnnMore) {
  const TaskGraph graph = MakeModel("vdnnpp-table-3", {.batch = 64, .gpu = "gtx-1080-ti"}).value();
  testing::PoolPolicy options = testing::PaperMode("conv(m)");
  std::vector<double> seconds;
  for (const char* policy : {"none", "vdnn++", "vdnn"}) {
    const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, options);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    seconds.push_back(timeline->seconds);
  }
  EXPECT_LT(seconds[0], seconds[1]);
  EXPECT_LT(seconds[1], seconds[2]);
}

}  // namespace
}  // namespace tidepool
