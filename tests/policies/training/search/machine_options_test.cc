// SPDX-License-Identifier: Apache-2.0
// The policy `best` on devices with a compressor and with several compute streams: schedules are
// valid, never slower than without, and on small graphs between the optimum and a known bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/training/search/concurrent_order.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tests/support/sizes.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

// Returns a request with counted work, for paged memory.
ScheduleRequest PagedRequest(std::int64_t memory_bytes, double work) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.memory = ScheduleMemory::kPaged;
  request.options =
      BestOptions{.time_limit_seconds = 1000, .work_seconds = work, .recomputes = false};
  return request;
}

// Lets the device compress activations with half of the words zero.
void AddCompressor(const TaskGraph& graph, const CopyCompressor& compressor,
                   ScheduleRequest& request) {
  request.machine.devices.front().compressor = compressor;
  std::vector<double>& densities = std::get<BestOptions>(request.options).densities;
  for (const GraphData& data : graph.data) {
    densities.push_back(data.kind == DataKind::kActivation ? 0.5 : 1);
  }
}

bool HasCompressedCopies(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const ScheduleStep& step) { return step.density >= 0; });
}

std::size_t StreamsOf(const Schedule& schedule) {
  std::set<std::size_t> streams;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kRun) streams.insert(step.stream);
  }
  return streams.size();
}

TEST(CopyCompressor, MakesCopiesFasterAndSchedulesNeverSlower) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 32, .gpu = "v100"}).value();
  for (const std::int64_t memory : testing::Cases({350 * kMiB, 500 * kMiB})) {
    ScheduleRequest request = PagedRequest(memory, 0.05);
    const double raw = Simulate(MakeSchedule("best", graph, request).value())->seconds;
    AddCompressor(graph, {200e9, 100e9}, request);
    const MadeSchedule made = MakeSchedule("best", graph, request).value();
    ExpectValid(made);
    EXPECT_TRUE(HasCompressedCopies(made.schedule));
    EXPECT_LT(Simulate(made)->seconds, raw * 0.9);
    // A slow engine gains nothing, and its copies stay raw.
    request.machine.devices.front().compressor = {1e9, 1e9};
    const MadeSchedule slow = MakeSchedule("best", graph, request).value();
    EXPECT_FALSE(HasCompressedCopies(slow.schedule));
    EXPECT_EQ(Simulate(slow)->seconds, raw);
  }
}

TEST(CopyCompressor, HasAddressesAndPartsToo) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 32, .gpu = "v100"}).value();
  ScheduleRequest request = PagedRequest(500 * kMiB, 0.05);
  request.memory = ScheduleMemory::kFixed;
  std::get<BestOptions>(request.options).part_bytes = 4 * kMiB;
  AddCompressor(graph, {200e9, 100e9}, request);
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  EXPECT_TRUE(HasCompressedCopies(made.schedule));
}

TEST(CopyCompressor, TakesNoDataThatTheHostReads) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4}).value();
  Schedule schedule = MakeSchedule("best", graph, PagedRequest(4096 * kMiB, 0.01))->schedule;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    const DataKind kind = graph.data[data].kind;
    if (kind != DataKind::kWeight && kind != DataKind::kWeightGradient) continue;
    Schedule wrong = schedule;
    const auto at =
        std::find_if(wrong.steps.begin(), wrong.steps.end(),
                     [&](const ScheduleStep& step) { return step.kind == StepKind::kRun; });
    wrong.steps.insert(at, {.kind = StepKind::kOffload, .index = data, .density = 0.5});
    EXPECT_THAT(std::string(ValidateSchedule(graph, wrong).message()),
                HasSubstr("expected a raw copy of data that the host may read"));
  }
}

TEST(CopyCompressor, RefusesWrongDensities) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4}).value();
  ScheduleRequest request = PagedRequest(1024 * kMiB, 0.01);
  std::get<BestOptions>(request.options).densities = {0.5};
  EXPECT_THAT(std::string(MakeSchedule("best", graph, request).status().message()),
              HasSubstr("1 densities, expected "));
  AddCompressor(graph, {0.5, 100e9}, request);
  EXPECT_THAT(std::string(MakeSchedule("best", graph, request).status().message()),
              HasSubstr("a compressor of 0.5 bytes per second, expected at least 1"));
}

TEST(ComputeStreams, RunBranchesBesideEachOther) {
  const TaskGraph graph =
      MakeModel("inception-v3", {.batch = 2, .gpu = "v100", .inputs = DataHome::kDevice}).value();
  for (const ScheduleMemory memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
    ScheduleRequest request = PagedRequest(2048 * kMiB, 0.05);
    request.memory = memory;
    double last = Simulate(MakeSchedule("best", graph, request).value())->seconds;
    for (const std::size_t streams : {2, 4}) {
      request.machine.devices.front().compute_streams = streams;
      const MadeSchedule made = MakeSchedule("best", graph, request).value();
      ExpectValid(made);
      EXPECT_EQ(StreamsOf(made.schedule), streams);
      const double seconds = Simulate(made)->seconds;
      EXPECT_LT(seconds, streams == 2 ? last * 0.8 : last);
      last = seconds;
    }
  }
}

TEST(ComputeStreams, GainNothingInAChain) {
  const TaskGraph graph = FromChain({.forward_seconds = {1, 2},
                                     .backward_seconds = {2, 1},
                                     .forward_extra = {0, 0},
                                     .backward_extra = {0, 0},
                                     .x = {1, 2, 1},
                                     .y = {1, 1, 1},
                                     .link_bytes_per_second = 1,
                                     .memory_bytes = 0})
                              .value();
  EXPECT_FALSE(search::InConcurrentOrder(graph, 2).is_faster);
  ScheduleRequest request = PagedRequest(100, 0.001);
  request.placing.alignment = 1;
  request.machine.devices.front().compute_streams = 2;
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  EXPECT_EQ(StreamsOf(made.schedule), 1);
  EXPECT_EQ(Simulate(made)->seconds, 6);
}

// The least time of tasks on streams: every task that can start is tried next on every stream.
class SlowStreams {
 public:
  SlowStreams(const TaskGraph& graph, std::size_t streams)
      : graph_(graph), tails_(streams), ends_(graph.tasks.size(), -1) {}

  double Least() {
    Try(0);
    return least_;
  }

 private:
  // Whether task `at` must wait for an earlier one of the list.
  bool Follows(std::size_t at, std::size_t before) const {
    const GraphTask& a = graph_.tasks[before];
    const GraphTask& b = graph_.tasks[at];
    const auto meet = [](const std::vector<std::size_t>& x, const std::vector<std::size_t>& y) {
      return std::any_of(x.begin(), x.end(), [&](std::size_t data) {
        return std::find(y.begin(), y.end(), data) != y.end();
      });
    };
    for (const auto* changed : {&a.writes, &a.updates}) {
      for (const auto* used : {&b.reads, &b.writes, &b.updates}) {
        if (meet(*changed, *used)) return true;
      }
    }
    return meet(a.reads, b.writes) || meet(a.reads, b.updates);
  }

  void Try(std::size_t done) {
    const double latest = *std::max_element(tails_.begin(), tails_.end());
    if (latest >= least_) return;
    if (done == ends_.size()) {
      least_ = latest;
      return;
    }
    for (std::size_t at = 0; at < ends_.size(); ++at) {
      double ready = ends_[at] < 0 ? 0 : -1;
      for (std::size_t before = 0; before < at && ready >= 0; ++before) {
        if (Follows(at, before)) ready = ends_[before] < 0 ? -1 : std::max(ready, ends_[before]);
      }
      if (ready < 0) continue;
      for (double& tail : tails_) {
        const double old = tail;
        tail = ends_[at] = std::max(ready, tail) + graph_.tasks[at].algorithms[0].seconds;
        Try(done + 1);
        tail = old;
        ends_[at] = -1;
      }
    }
  }

  const TaskGraph& graph_;
  std::vector<double> tails_;
  std::vector<double> ends_;  // by task; -1: it has not run
  double least_ = std::numeric_limits<double>::infinity();
};

// A list schedule takes at most 2 - 1/S times the optimum (Graham, "Bounds on Multiprocessing
// Timing Anomalies", SIAM Journal on Applied Mathematics 17, 1969).
TEST(ComputeStreams, AreBetweenTheOptimumAndGrahamsBound) {
  testing::RandomGraphs random(5);
  int optimal = 0;
  constexpr int kGraphs = 60;
  for (int i = 0; i < kGraphs; ++i) {
    TaskGraph graph;
    graph.name = "random";
    const auto tasks = static_cast<std::size_t>(2 + random.Below(6));
    for (std::size_t at = 0; at < tasks; ++at) {
      graph.data.push_back(
          {"data" + std::to_string(at), static_cast<std::int64_t>(1 + random.Below(5))});
      GraphTask task = {.name = "task" + std::to_string(at), .writes = {at}};
      for (std::size_t before = 0; before < at; ++before) {
        if (random.Chance(0.3)) task.reads.push_back(before);
      }
      task.algorithms = {{"only", static_cast<double>(1 + random.Below(9)), 0}};
      graph.tasks.push_back(std::move(task));
    }
    const std::size_t streams = 2 + i % 2;
    ScheduleRequest request = PagedRequest(1000, 0.001);
    request.placing.alignment = 1;
    request.machine.devices.front().compute_streams = streams;
    const MadeSchedule made = MakeSchedule("best", graph, request).value();
    ExpectValid(made);
    const double seconds = Simulate(made)->seconds;
    const double least = SlowStreams(graph, streams).Least();
    EXPECT_GE(seconds, least * (1 - 1e-12)) << GraphJson(graph);
    EXPECT_LE(seconds, least * (2 - 1.0 / static_cast<double>(streams)) * (1 + 1e-12));
    optimal += seconds <= least * (1 + 1e-12) ? 1 : 0;
  }
  EXPECT_GE(optimal, kGraphs * 8 / 10);
}

TEST(MachineOptions, NeverMakeRandomGraphsSlower) {
  testing::RandomGraphs random(37);
  int fits = 0;
  for (int i = 0; i < 100; ++i) {
    TaskGraph graph =
        testing::RandomTraining(random).Make(static_cast<std::size_t>(1 + random.Below(6)));
    for (GraphData& data : graph.data) {
      if (ExistsAfter(data)) data.before = data.after = DataHome::kDevice;
    }
    ScheduleRequest request = PagedRequest(static_cast<std::int64_t>(8 + random.Below(60)), 0.005);
    request.placing.alignment = 1;
    if (i % 2 == 0) request.memory = ScheduleMemory::kFixed;
    const absl::StatusOr<MadeSchedule> plain = MakeSchedule("best", graph, request);
    if (absl::IsResourceExhausted(plain.status())) continue;
    AddCompressor(graph, {200e9, 100e9}, request);
    request.machine.devices.front().compute_streams = 1 + i % 3;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
    ASSERT_TRUE(made.ok()) << made.status() << GraphJson(graph);
    ++fits;
    ExpectValid(*made);
    EXPECT_LE(Simulate(*made)->seconds, Simulate(*plain)->seconds * (1 + 1e-9));
    if (HasFailure()) return;
  }
  EXPECT_GT(fits, 30);
}

}  // namespace
}  // namespace tidepool
