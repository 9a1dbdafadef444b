// SPDX-License-Identifier: Apache-2.0
// An executor that takes another schedule between iterations: data that stays keeps its bytes, and
// a schedule that is refused changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/placed_rig.h"
#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::OffloadEverything;
using testing::PlacedRig;
using testing::RandomGraphs;
using Call = HostDevice::Call;

// Weights of earlier iterations are read again after the schedule has changed. The second schedule
// sends data for which the first had no room on the host, and the third compresses it.
TEST(RescheduleTest, DataThatStaysKeepsItsBytes) {
  int on_host = 0;
  int larger = 0;
  const int rounds = testing::Rounds(60);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    TaskGraph graph = testing::SmallRandomGraph(random, 2 + random.Below(20));
    if (seed % 2 == 1) random.MoveHomes(graph);
    const Schedule stays = OffloadEverything(graph, {.moves_nothing = true}).Make();
    const Schedule leaves = OffloadEverything(graph, {.drops_early = true}).Make();
    const Schedule compressed =
        OffloadEverything(graph, {.drops_early = true, .density = 0.5}).Make();
    PlacedRig rig(graph, {.compresses = true});
    // Later schedules run in the memory of the first.
    const bool is_smaller = rig.PoolBytes(stays) < rig.PoolBytes(leaves);
    ASSERT_EQ(rig.Create(is_smaller ? leaves : stays, {.measures = random.Chance(0.3)}),
              absl::OkStatus());
    std::vector<std::uint64_t> hashes;
    for (const Schedule* schedule : {&stays, &leaves, &compressed, &leaves}) {
      const std::int64_t areas = rig.device().CountCalls(Call::kAllocatePinned);
      ASSERT_EQ(rig.Reschedule(*schedule), absl::OkStatus());
      larger += rig.device().CountCalls(Call::kAllocatePinned) > areas ? 1 : 0;
      const auto more = rig.Run(1);
      ASSERT_TRUE(more.ok()) << more.status();
      hashes.insert(hashes.end(), more->begin(), more->end());
    }
    EXPECT_EQ(hashes, PlainRun(graph, stays, 4));
    for (const GraphData& data : graph.data) {
      on_host += data.kind != DataKind::kInput && data.before == DataHome::kHost ? 1 : 0;
    }
  }
  EXPECT_GT(on_host, 0);
  EXPECT_GT(larger, rounds / 4);
}

TEST(RescheduleTest, ARefusedScheduleChangesNothing) {
  using namespace testing;  // NOLINT: the words for steps
  const TaskGraph graph = SmallGraph();
  const Schedule plain = Of(graph, PlainSteps());
  PlacedRig rig(graph, {.memory_bytes = 16 << 10});
  ASSERT_EQ(rig.Create(plain), absl::OkStatus());
  Executor& executor = rig.executor();
  const Schedule placed = rig.Place(plain).value();
  const auto expect_refused = [&](const Schedule& schedule, absl::StatusCode code,
                                  const std::string& text) {
    const absl::Status status = executor.Reschedule(schedule);
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  Schedule other = placed;
  other.fingerprint += 1;
  expect_refused(other, absl::StatusCode::kFailedPrecondition, "graph");
  expect_refused(plain, absl::StatusCode::kInvalidArgument, "PlaceInPool gives it addresses");
  other = placed;
  for (ScheduleStep& step : other.steps) {
    if (step.offset >= 0) step.offset += 512;
  }
  expect_refused(other, absl::StatusCode::kResourceExhausted,
                 "bytes on device 0, expected at most");
  other = placed;
  other.alignment *= 2;
  for (ScheduleStep& step : other.steps) {
    if (step.offset >= 0) step.offset *= 2;
  }
  expect_refused(other, absl::StatusCode::kResourceExhausted, "alignment of 1024");
  other = placed;
  // The batch lies next to the kernel, so they can change places.
  for (ScheduleStep& step : other.steps) {
    if (step.kind != StepKind::kAllocate) continue;
    if (step.index == kKernel) step.offset = 1024;
    if (step.index == kBatch) step.offset = 0;
  }
  expect_refused(
      other, absl::StatusCode::kInvalidArgument,
      "data 'kernel' stays on device 0 between iterations, and lies at offset 1024, expected 0");
  const auto hashes = rig.Run(2);
  ASSERT_TRUE(hashes.ok()) << hashes.status();
  EXPECT_EQ(*hashes, PlainRun(graph, plain, 2));
}

// Any call of the device may fail. The schedule from before runs on, and all is given back.
TEST(RescheduleTest, ADeviceThatFailsLeavesTheScheduleFromBefore) {
  RandomGraphs random(7);
  const TaskGraph graph = testing::SmallRandomGraph(random, 6);
  const Schedule stays = OffloadEverything(graph, {.moves_nothing = true}).Make();
  const Schedule leaves = OffloadEverything(graph, {}).Make();
  bool has_failed = true;
  std::int64_t n = 1;
  for (; has_failed; ++n) {
    ASSERT_LT(n, 1000);
    PlacedRig rig(graph);
    ASSERT_EQ(rig.Create(stays, {.measures = true}), absl::OkStatus());
    auto hashes = rig.Run(1).value();
    rig.device().FailCall(Call::kAny, n);
    const absl::Status status = rig.Reschedule(leaves);
    rig.device().FailCall(Call::kAny, 0);
    has_failed = !status.ok();
    EXPECT_EQ(absl::IsUnavailable(status), has_failed) << status;
    const auto more = rig.Run(1);
    ASSERT_TRUE(more.ok()) << more.status();
    hashes.insert(hashes.end(), more->begin(), more->end());
    EXPECT_EQ(hashes, PlainRun(graph, stays, 2));
    const absl::StatusOr<Timeline> timeline = rig.executor().Run();
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(timeline->bytes_out > 0, !has_failed);
    rig.Destroy();
    EXPECT_EQ(rig.device().used_bytes(), 0);
  }
  EXPECT_GT(n, 5);
}

}  // namespace
}  // namespace tidepool
