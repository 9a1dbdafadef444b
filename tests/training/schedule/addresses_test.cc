// SPDX-License-Identifier: Apache-2.0
// Fixed addresses: planned ones, and the checker against a model that keeps the owner of each byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::RandomDeviceSchedules;
using testing::RandomGraphs;
using testing::RandomTraining;
using testing::Rounds;

// Performs every repetition of a valid schedule twice over, as two iterations, with the owner of
// each byte of each device.
class SlowAddresses {
 public:
  SlowAddresses(const TaskGraph& graph, const Schedule& schedule, std::int64_t memory_bytes)
      : graph_(graph), schedule_(schedule), memory_bytes_(memory_bytes) {}

  bool AreValid() { return Iterate() && Iterate() && LastIsFirst(); }

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // device and data

  bool IsResident(std::size_t data) const {
    return graph_.data[data].before == DataHome::kDevice &&
           graph_.data[data].after == DataHome::kDevice;
  }

  bool Iterate() {
    std::vector<ScheduleRound> rounds = schedule_.rounds;
    if (rounds.empty()) rounds = {{0, schedule_.steps.size()}};
    was_allocated_.clear();
    for (const ScheduleRound& round : rounds) {
      for (std::int64_t time = 0; time < round.times; ++time) {
        for (std::size_t i = 0; i < round.steps; ++i) {
          if (!Perform(schedule_.steps[round.first_step + i])) return false;
        }
      }
    }
    return true;
  }

  // Resident data is where the next iteration expects it.
  bool LastIsFirst() const {
    for (const auto& [place, offset] : first_) {
      if (offsets_.at(place) != offset) return false;
    }
    return true;
  }

  bool Perform(const ScheduleStep& step) {
    const bool takes = step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch;
    const bool gives = step.kind == StepKind::kFree || step.kind == StepKind::kDrop;
    if (step.kind == StepKind::kRun && step.device != kHostDevice) {
      const std::int64_t bytes =
          graph_.tasks[step.index].algorithms[step.algorithm].workspace_bytes;
      return bytes == 0 || IsFree(step.device, step.offset, step.offset + bytes);
    }
    if (!takes && !gives) return true;
    const Place place = {step.device, step.index};
    const std::int64_t end = step.end == -1 ? graph_.data[step.index].bytes : step.end;
    if (takes && IsResident(step.index) && was_allocated_.insert(place).second) {
      const auto [first, is_new] = first_.emplace(place, step.offset);
      if (!is_new) return true;  // there from the iteration before
    }
    if (takes) offsets_[place] = step.offset;
    const std::int64_t offset = offsets_[place];
    if (takes && !IsFree(step.device, offset + step.begin, offset + end)) return false;
    for (std::int64_t at = offset + step.begin; at < offset + end; ++at) {
      std::optional<std::size_t>& owner = owners_[{step.device, at}];
      if (takes) owner = step.index;
      if (gives && owner == step.index) owner.reset();
    }
    return true;
  }

  bool IsFree(std::size_t device, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      if (at >= memory_bytes_ || owners_[{device, at}].has_value()) return false;
    }
    return true;
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const std::int64_t memory_bytes_;
  std::map<std::pair<std::size_t, std::int64_t>, std::optional<std::size_t>> owners_;
  std::map<Place, std::int64_t> offsets_;
  std::map<Place, std::int64_t> first_;
  std::set<Place> was_allocated_;
};

// Returns the most memory that steps of one repetition hold, with all memory of data that is there
// in part.
std::int64_t HighestEnd(const TaskGraph& graph, const Schedule& schedule) {
  std::int64_t highest = 0;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.offset == -1) continue;
    const std::int64_t bytes =
        step.kind == StepKind::kRun
            ? graph.tasks[step.index].algorithms[step.algorithm].workspace_bytes
            : graph.data[step.index].bytes;
    highest = std::max(highest, step.offset + bytes);
  }
  return highest;
}

void ChangeOffset(RandomGraphs& random, Schedule& schedule) {
  const std::size_t first = random.Below(schedule.steps.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    ScheduleStep& step = schedule.steps[(first + i) % schedule.steps.size()];
    if (step.offset == -1) continue;
    step.offset = static_cast<std::int64_t>(random.Below(20));
    return;
  }
}

TEST(AddressesProperty, CheckIsThatOfTheSlowModel) {
  RandomGraphs random(41);
  constexpr std::int64_t kPlenty = 1000;
  int fixed = 0;
  int lower = 0;  // than a plan that keeps all memory of data that is there in part
  int valid = 0;
  int broken = 0;
  int too_high = 0;
  for (int i = 0; i < Rounds(500); ++i) {
    SCOPED_TRACE(i);
    const TaskGraph graph = RandomTraining(random).Make(1 + random.Below(3));
    const std::size_t devices = 1 + random.Below(2);
    const auto paged = RandomDeviceSchedules(graph, random, ScheduleMemory::kPaged, devices)
                           .Valid(1 + random.Below(4));
    if (!paged.has_value()) continue;
    const std::int64_t alignment = 1 << random.Below(3);
    const std::vector<std::int64_t> memory(devices, kPlenty);
    const absl::StatusOr<Schedule> made = FixAddresses({&graph, 1}, *paged, alignment, memory);
    ASSERT_TRUE(made.ok()) << made.status();
    ++fixed;
    ASSERT_EQ(ValidateAddresses({&graph, 1}, *made, memory), absl::OkStatus());
    ASSERT_TRUE(SlowAddresses(graph, *made, kPlenty).AreValid());
    const std::int64_t height = HighestEnd(graph, *made);
    const std::vector<std::int64_t> enough(devices, height);
    const std::vector<std::int64_t> less(devices, height - 1);
    ASSERT_EQ(ValidateAddresses({&graph, 1}, *made, enough), absl::OkStatus());
    ASSERT_FALSE(ValidateAddresses({&graph, 1}, *made, less).ok());
    const absl::StatusOr<Schedule> reused = FixAddresses({&graph, 1}, *paged, alignment, less);
    if (reused.ok()) {
      ++lower;
      ASSERT_EQ(ValidateAddresses({&graph, 1}, *reused, less), absl::OkStatus());
      ASSERT_TRUE(SlowAddresses(graph, *reused, height - 1).AreValid());
    }
    for (int change = 0; change < 6; ++change) {
      Schedule schedule = *made;
      schedule.alignment = 1;
      ChangeOffset(random, schedule);
      if (random.Chance(0.3)) ChangeOffset(random, schedule);
      if (!ValidateSchedule(graph, schedule).ok()) continue;  // parts of one stay, or rounds
      const absl::Status status = ValidateAddresses({&graph, 1}, schedule, enough);
      ASSERT_EQ(status.ok(), SlowAddresses(graph, schedule, height).AreValid()) << status;
      too_high += absl::StrContains(status.message(), "expected addresses in") ? 1 : 0;
      ++(status.ok() ? valid : broken);
    }
  }
  EXPECT_GT(fixed, Rounds(500) / 3);
  EXPECT_GT(lower, Rounds(500) / 100);
  EXPECT_GT(valid, Rounds(500) / 10);
  EXPECT_GT(broken, Rounds(500));
  EXPECT_GT(too_high, Rounds(500) / 20);
}

using namespace testing;  // NOLINT: short names of steps

ScheduleStep At(std::int64_t offset, ScheduleStep step) {
  step.offset = offset;
  return step;
}

Schedule Fixed(const TaskGraph& graph) {
  Schedule schedule = Of(graph, PlainSteps());
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = 1;
  return FixAddresses({&graph, 1}, schedule, 8, {1 << 20}).value();
}

std::string AddressError(const TaskGraph& graph, const Schedule& schedule, std::int64_t memory) {
  return std::string(ValidateAddresses({&graph, 1}, schedule, {memory}).message());
}

TEST(Addresses, ErrorsNameBothRanges) {
  const TaskGraph graph = SmallGraph();
  Schedule schedule = Fixed(graph);
  const std::int64_t height = HighestEnd(graph, schedule);
  EXPECT_EQ(AddressError(graph, schedule, height), "");
  // All data but the workspace lives at once: kernel, batch, map, score, slope, step.
  EXPECT_EQ(height, 512 + 1024 + 4096 + 600 + 512 + 512 + 1);
  schedule.steps[1].offset = schedule.steps[0].offset = 0;
  EXPECT_EQ(AddressError(graph, schedule, height),
            "step 1, allocate 'batch': addresses [0, 1024) overlap [0, 512) of data 'kernel', "
            "expected addresses that are free");
  schedule = Fixed(graph);
  schedule.steps[8].offset = schedule.steps[4].offset;
  EXPECT_THAT(AddressError(graph, schedule, height), HasSubstr("step 8, run 'back': addresses ["));
  schedule.steps[8].offset = (height - 504) & -8;
  EXPECT_THAT(AddressError(graph, schedule, height),
              HasSubstr(absl::StrCat("expected addresses in [0, ", height, ") of device 0")));
}

TEST(Addresses, ResidentDataIsThereFromTheBegin) {
  const TaskGraph graph = SmallGraph();
  Schedule schedule = Fixed(graph);
  // The kernel is allocated last, where the batch is meanwhile.
  std::swap(schedule.steps[0], schedule.steps[1]);
  schedule.steps[0].offset = schedule.steps[1].offset;
  EXPECT_THAT(AddressError(graph, schedule, 1 << 20),
              HasSubstr("step 0, allocate 'batch': addresses ["));
  schedule = Fixed(graph);
  schedule.steps.insert(schedule.steps.begin() + 1, {Offload(kKernel),
                                                     {.kind = StepKind::kDrop, .index = kKernel},
                                                     At(1 << 16, Prefetch(kKernel))});
  EXPECT_THAT(AddressError(graph, schedule, 1 << 20),
              HasSubstr("after the last step: data 'kernel' of device 0 is at offset 65536, "
                        "expected offset"));
}

// The kernel leaves after the convolution, and comes back before its update.
TEST(Addresses, TheMemoryOfWeightsThatLeaveIsUsedMeanwhile) {
  TaskGraph graph = SmallGraph();
  graph.data[kKernel].bytes = 513;
  Schedule schedule = Of(graph, PlainSteps());
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = 1;
  std::vector<ScheduleStep>& steps = schedule.steps;
  steps.insert(steps.begin() + 12, Prefetch(kKernel));
  steps.insert(steps.begin() + 4, {Offload(kKernel), Drop(kKernel)});
  const std::int64_t without_kernel = 1024 + 4096 + 1 + 600 + 512 + 512;
  const absl::StatusOr<Schedule> kept =
      FixAddresses({&graph, 1}, schedule, 1, {without_kernel + 513});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(HighestEnd(graph, *kept), without_kernel + 513);
  const absl::StatusOr<Schedule> reused = FixAddresses({&graph, 1}, schedule, 1, {without_kernel});
  ASSERT_TRUE(reused.ok()) << reused.status();
  EXPECT_EQ(AddressError(graph, *reused, without_kernel), "");
  EXPECT_TRUE(SlowAddresses(graph, *reused, without_kernel).AreValid());
  EXPECT_EQ(FixAddresses({&graph, 1}, schedule, 1, {without_kernel - 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// While half of the map is on the host, a task without the map takes its memory.
TEST(Addresses, TheMemoryOfBytesThatLeaveIsUsedMeanwhile) {
  TaskGraph graph = SmallGraph();
  graph.data.push_back({"own", 2048});
  graph.tasks.push_back({.name = "apart", .writes = {6}, .algorithms = {{"only", 1, 0}}});
  ScheduleStep back = Prefetch(kMap);
  back.begin = 2048;
  Schedule schedule = Of(graph, PlainSteps());
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = 1;
  schedule.steps.insert(schedule.steps.begin() + 6,
                        {Offload(kMap), Drop(kMap, 2048), Allocate(6), RunTask(4), Free(6), back});
  const std::int64_t at_back = 512 + 1024 + 4096 + 1 + 600 + 512 + 512;
  const absl::StatusOr<Schedule> reused = FixAddresses({&graph, 1}, schedule, 1, {at_back});
  ASSERT_TRUE(reused.ok()) << reused.status();
  EXPECT_EQ(AddressError(graph, *reused, at_back), "");
  EXPECT_TRUE(SlowAddresses(graph, *reused, at_back).AreValid());
}

TEST(Addresses, AreRefusedWithoutMemory) {
  const TaskGraph graph = SmallGraph();
  Schedule schedule = Of(graph, PlainSteps());
  EXPECT_EQ(AddressError(graph, schedule, 1),
            "a schedule with pool memory has no addresses, expected fixed memory");
  EXPECT_EQ(FixAddresses({&graph, 1}, schedule, 8, {1}).status().message(),
            "a schedule with pool memory, expected paged memory");
  schedule.memory = ScheduleMemory::kPaged;
  EXPECT_EQ(FixAddresses({&graph, 1}, schedule, 24, {1}).status().message(),
            "alignment 24, expected a power of two up to 1 GiB");
  EXPECT_EQ(FixAddresses({&graph, 1}, schedule, 8, {}).status().message(),
            "the memory of 0 devices, expected that of all 1");
  const absl::Status status = FixAddresses({&graph, 1}, schedule, 8, {7000}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the plan of device 0 needs 7264 bytes, expected at most 7000");
  EXPECT_EQ(ValidateAddresses({&graph, 1}, Fixed(graph), {}).message(),
            "the memory of 0 devices, expected that of all 1");
}

}  // namespace
}  // namespace tidepool
