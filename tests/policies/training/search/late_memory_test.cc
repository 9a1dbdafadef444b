// SPDX-License-Identifier: Apache-2.0
// Steps that take memory late: valid, no slower, and with a lower plan.
#include "policies/training/search/late_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/training/schedule/addresses/schedule_planning.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::search {
namespace {

MadeSchedule InPagesOf(const TaskGraph& graph, std::int64_t memory_bytes) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.memory = ScheduleMemory::kPaged;
  request.options =
      BestOptions{.time_limit_seconds = 1000, .work_seconds = 0.1, .recomputes = false};
  return MakeSchedule("best", graph, request).value();
}

double SecondsOf(const MadeSchedule& made, const Schedule& schedule) {
  const absl::StatusOr<Program> program = LowerSchedule(made.graphs, schedule, made.machine);
  EXPECT_TRUE(program.ok()) << program.status();
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(program.value())) {
    seconds = std::max(seconds, times.end);
  }
  return seconds;
}

std::int64_t HeightOf(const MadeSchedule& made, const Schedule& schedule,
                      std::int64_t memory_bytes) {
  return schedule::FixAddressesWithin({.most_seconds = 1000, .whole_seconds = 0}, made.graphs,
                                      schedule, schedule.alignment, {&memory_bytes, 1})
      ->height;
}

TEST(LateMemory, NeedsAPlanAsLowAndTakesNoLonger) {
  constexpr double kOfASearch = 1.01;  // plans are those of a short search
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 16, .image = 112}).value();
  const std::int64_t memory =
      Simulate(InPagesOf(graph, std::int64_t{1} << 40)).value().peak_device_bytes;
  const MadeSchedule made = InPagesOf(graph, memory * 3 / 4);
  const Schedule late = TakeMemoryLate(graph, made.schedule, made.machine).value();
  EXPECT_EQ(ValidateSchedule(graph, late), absl::OkStatus());
  EXPECT_LE(SecondsOf(made, late), SecondsOf(made, made.schedule) * (1 + 1e-9));
  EXPECT_LE(static_cast<double>(HeightOf(made, late, memory * 3 / 4)),
            static_cast<double>(HeightOf(made, made.schedule, memory * 3 / 4)) * kOfASearch);
}

}  // namespace
}  // namespace tidepool::search
