// SPDX-License-Identifier: Apache-2.0
// `best` with twice the work and four times the work takes no longer, from the work of its first
// round on.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using testing::Cases;
using testing::Rounds;

constexpr double kLeastWork = 0.15;  // more than that of the first round
constexpr double kNever = std::numeric_limits<double>::infinity();

double SecondsWith(const TaskGraph& graph, ScheduleRequest request, double work) {
  request.options = BestOptions{.time_limit_seconds = 1000, .work_seconds = work};
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
  return made.ok() ? Simulate(*made)->seconds : kNever;
}

void ExpectNoLonger(const TaskGraph& graph, const ScheduleRequest& request) {
  double before = kNever;
  for (const double times : {1, 2, 4}) {
    const double seconds = SecondsWith(graph, request, times * kLeastWork);
    EXPECT_LE(seconds, before * (1 + 1e-12)) << times * kLeastWork << " seconds of work";
    before = seconds;
  }
}

std::int64_t PeakBytesOf(const TaskGraph& graph) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 50;
  return Simulate(MakeSchedule("none", graph, request).value())->peak_device_bytes;
}

TEST(MoreWork, IsNoSlowerForSmallGraphs) {
  testing::RandomGraphs random(41);
  for (int i = 0; i < Rounds(20); ++i) {
    SCOPED_TRACE(i);
    const TaskGraph graph =
        testing::RandomTraining(random).Make(static_cast<std::size_t>(3 + random.Below(5)));
    ScheduleRequest request;
    request.machine.devices.front().memory_bytes = static_cast<std::int64_t>(12 + random.Below(40));
    MachineLink& link = request.machine.links.front();
    link.out_bytes_per_second = link.in_bytes_per_second = 2;
    request.placing.alignment = 1;
    request.memory = i % 2 == 0 ? ScheduleMemory::kPaged : ScheduleMemory::kFixed;
    ExpectNoLonger(graph, request);
  }
}

TEST(MoreWork, IsNoSlowerForNetworks) {
  for (const char* name : Cases({"alexnet", "resnet-18"})) {
    const TaskGraph graph = MakeModel(name, {.batch = 16}).value();
    const std::int64_t peak = PeakBytesOf(graph);
    for (const int percent : {40, 70}) {
      for (const ScheduleMemory memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(percent) + " % " +
                     std::string(ScheduleMemoryName(memory)));
        ScheduleRequest request;
        request.machine.devices.front().memory_bytes = peak / 100 * percent;
        request.memory = memory;
        ExpectNoLonger(graph, request);
      }
    }
  }
}

// The graph of a step of Mask R-CNN, in units of 64 KiB and milliseconds. In less than half of its
// memory each round begins with a slow lead, and only an earlier one that was improved is fast.
TEST(MoreWork, IsUsedWhereLeadsAreSlow) {
  const auto file = std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "tests" / "policies" / "training" /
                    "search" / "detection.graph.json.gz";
  const TaskGraph graph = ReadGraph(file).value();
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = 40'000;
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 732;
  request.placing.alignment = 1;
  request.memory = ScheduleMemory::kPaged;
  double ideal = 0;
  for (const GraphTask& task : graph.tasks) ideal += task.algorithms.front().seconds;
  EXPECT_LT(SecondsWith(graph, request, 2), 1.5 * ideal);
}

}  // namespace
}  // namespace tidepool
