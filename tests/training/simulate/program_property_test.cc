// SPDX-License-Identifier: Apache-2.0
// Random schedules with fixed addresses and pages on random machines, against the slow model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/training/simulate/shared_links.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_program.h"
#include "tests/training/schedule/slow_program.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using testing::RandomPrograms;
using testing::Rounds;
using testing::SlowProgram;

void ExpectNear(double a, double b, std::uint64_t seed, const std::string& what) {
  ASSERT_NEAR(a, b, 1e-9) << what << ", seed " << seed;
}

std::int64_t ValueAt(const std::vector<MemoryPoint>& curve, double seconds) {
  std::int64_t bytes = 0;
  for (const MemoryPoint& point : curve) {
    if (point.seconds <= seconds) bytes = point.bytes;
  }
  return bytes;
}

const std::vector<MemoryPoint>& CurveOf(const Timeline& timeline, std::size_t device) {
  return device == 0 ? timeline.device_memory : timeline.further_devices[device - 1].memory;
}

TEST(ProgramPropertyTest, TimesAndMemoryAreThoseOfTheSlowModel) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(150)); ++seed) {
    const RandomPrograms random(seed);
    const int iterations = 1 + static_cast<int>(seed % 2);
    const absl::StatusOr<Program> program =
        LowerSchedule(random.graphs, random.schedule, random.machine, {.iterations = iterations});
    ASSERT_TRUE(program.ok()) << program.status() << ", seed " << seed;
    const SlowProgram slow(random.graphs, random.schedule, random.machine, iterations);
    const std::vector<OperationTimes> times = TimeProgram(*program);
    ASSERT_EQ(times.size(), slow.operations().size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      const std::string what = "operation " + std::to_string(i);
      ASSERT_NO_FATAL_FAILURE(ExpectNear(times[i].start, slow.operations()[i].start, seed, what));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(times[i].end, slow.operations()[i].end, seed, what));
    }
    if (iterations == 2) {
      ASSERT_EQ(program->iterations[1], slow.second_iteration()) << "seed " << seed;
    }
    const Timeline timeline = SimulateProgram(random.graphs[0], *program);
    for (std::size_t device = 0; device < random.schedule.devices; ++device) {
      for (const OperationTimes& time : times) {
        // Between events: at an event rounding decides.
        const double seconds = time.start + 1.0 / (1 << 20);
        ASSERT_EQ(ValueAt(CurveOf(timeline, device), seconds), slow.MemoryAt(device, seconds))
            << "device " << device << " at " << seconds << ", seed " << seed;
      }
    }
  }
}

// Schedules of files may be any. The checker refuses most of these; here they do no harm without
// it.
TEST(ProgramPropertyTest, ChangedSchedulesDoNoHarm) {
  int lowered = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(1500)); ++seed) {
    RandomPrograms random(seed);
    for (std::size_t changes = 1 + random.Below(4); changes > 0; --changes) random.Change();
    const absl::StatusOr<Program> program =
        LowerSchedule(random.graphs, random.schedule, random.machine,
                      {.iterations = 2, .maps_pages = random.Chance(0.5)});
    if (!program.ok()) continue;
    ++lowered;
    const std::vector<OperationTimes> times = TimeProgram(*program);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const ProgramOperation& operation = program->operations[i];
      ASSERT_LE(times[i].start, times[i].end);
      for (std::uint32_t wait = 0; wait < operation.waits; ++wait) {
        const std::uint32_t before = program->waits[operation.first_wait + wait].operation;
        ASSERT_LT(before, i);
        ASSERT_LE(times[before].end, times[i].start + 1e-9);
      }
    }
    SimulateProgram(random.graphs[0], *program);
    CheckTimes(random.graphs, random.schedule, random.machine, times).IgnoreError();
  }
  EXPECT_GT(lowered, Rounds(1500) / 10);
}

// The cases above are worth little if the generator does not reach them.
TEST(ProgramPropertyTest, RandomSchedulesHaveAllFeatures) {
  int drops = 0;
  int reruns = 0;
  int ranges = 0;
  int host_tasks = 0;
  int repeated_rounds = 0;
  int shared_links = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const RandomPrograms random(seed);
    const Program program = LowerSchedule(random.graphs, random.schedule, random.machine).value();
    for (const ProgramChannel& channel : program.channels) shared_links += channel.streams > 1;
    for (const ScheduleRound& round : random.schedule.rounds) repeated_rounds += round.times > 1;
    std::vector<int> runs(random.graphs[0].tasks.size());
    for (const ScheduleStep& step : random.schedule.steps) {
      drops += step.kind == StepKind::kDrop;
      ranges += step.begin > 0;
      host_tasks += step.device == kHostDevice;
      if (step.kind == StepKind::kRun && step.device == 0) ++runs[step.index];
    }
    const auto passes = static_cast<int>(std::max<std::size_t>(random.schedule.rounds.size(), 1));
    for (const int times : runs) reruns += times > passes;
  }
  for (const int count : {drops, reruns, ranges, host_tasks, repeated_rounds, shared_links}) {
    EXPECT_GT(count, 10);
  }
}

// The event queue and the longest path are two ways to the same times.
TEST(ProgramPropertyTest, EventsTakeTheLongestPathWhereNoLinkIsShared) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(200)); ++seed) {
    const RandomPrograms random(seed);
    if (random.schedule.devices > 1) continue;
    const Program program = LowerSchedule(random.graphs, random.schedule, random.machine).value();
    const std::vector<OperationTimes> paths = TimeProgram(program);
    const std::vector<OperationTimes> events = simulate::TimesOnSharedLinks(program);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      ASSERT_EQ(paths[i].start, events[i].start) << "seed " << seed;
      ASSERT_EQ(paths[i].end, events[i].end) << "seed " << seed;
    }
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace tidepool
