// SPDX-License-Identifier: Apache-2.0
// The checker of schedules of chains: valid schedules by hand, each fault, and random schedules in
// which one operation is moved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using enum ChainAction;
using ::testing::HasSubstr;
using testing::RandomChains;
using Steps = std::vector<ChainStep>;

constexpr std::int64_t kRoom = 1000;

// Three operations of a second each. x_0 to x_3 have 1, 2, 4 and 8 bytes, and a copy of x_1 takes a
// second.
Chain ThreeOperations(std::int64_t memory = kRoom) {
  return {.forward_seconds = {1, 1, 1},
          .backward_seconds = {1, 1, 1},
          .forward_extra = {0, 0, 16},
          .backward_extra = {0, 0, 0},
          .x = {1, 2, 4, 8},
          .y = {0, 0, 32, 0},
          .link_bytes_per_second = 2,
          .memory_bytes = memory};
}

Steps Plain() {
  return {{kForward, 0, 0},  {kForward, 1, 1},  {kForward, 2, 2},
          {kBackward, 2, 3}, {kBackward, 1, 4}, {kBackward, 0, 5}};
}

// x_1 leaves while F_1 and F_2 run, and comes back while B_2 runs.
Steps WithTransfer() {
  return {{kForward, 0, 0},  {kForward, 1, 1},  {kOffload, 1, 1},  {kForward, 2, 2},
          {kBackward, 2, 3}, {kPrefetch, 1, 3}, {kBackward, 1, 4}, {kBackward, 0, 5}};
}

// x_1 is dropped after F_1, and F_0 runs again.
Steps WithRecomputation() {
  return {{kForward, 0, 0},  {kForward, 1, 1}, {kDrop, 1, 2},     {kForward, 2, 2},
          {kBackward, 2, 3}, {kForward, 0, 4}, {kBackward, 1, 5}, {kBackward, 0, 6}};
}

absl::Status Check(const Steps& steps, double seconds, std::int64_t memory = kRoom) {
  return CheckChainSchedule(ThreeOperations(memory), {.steps = steps, .seconds = seconds});
}

TEST(CheckChainSchedule, AcceptsValidSchedules) {
  EXPECT_TRUE(Check(Plain(), 6).ok()) << Check(Plain(), 6);
  EXPECT_TRUE(Check(WithTransfer(), 6).ok()) << Check(WithTransfer(), 6);
  EXPECT_TRUE(Check(WithRecomputation(), 7).ok()) << Check(WithRecomputation(), 7);
}

TEST(CheckChainSchedule, CountsMemory) {
  // B_2 holds x_0 to x_3, y_2 and y_3.
  EXPECT_TRUE(Check(Plain(), 6, 47).ok());
  EXPECT_EQ(Check(Plain(), 6, 46).message(),
            "step 3, B_2 at 3 s: 47 bytes are in use, and the memory has 46");
  // Without x_1.
  EXPECT_TRUE(Check(WithRecomputation(), 7, 45).ok());
  EXPECT_THAT(std::string(Check(WithRecomputation(), 7, 44).message()), HasSubstr("45 bytes"));
  // The prefetch takes its memory at its start.
  EXPECT_TRUE(Check(WithTransfer(), 6, 47).ok());
  EXPECT_THAT(std::string(Check(WithTransfer(), 6, 46).message()),
              HasSubstr("step 5, the prefetch of x_1 at 3 s: 47 bytes"));
}

TEST(CheckChainSchedule, LetsAnActivationStayThatIsFetchedEarly) {
  // x_2 has left for the host before F_2 ends, and its prefetch starts before that, too.
  Chain chain = ThreeOperations(31);
  chain.y[2] = 0;
  chain.forward_seconds[2] = 10;
  const Steps steps = {{kForward, 0, 0},   {kForward, 1, 1},  {kOffload, 2, 2},
                       {kForward, 2, 2},   {kPrefetch, 2, 5}, {kBackward, 2, 12},
                       {kBackward, 1, 13}, {kBackward, 0, 14}};
  const absl::Status status = CheckChainSchedule(chain, {.steps = steps, .seconds = 15});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckChainSchedule, AcceptsADropOfWhatTheHostHas) {
  // F_0 makes x_1 again on the device, it is dropped, and the copy on the host comes back.
  const Steps steps = {{kForward, 0, 0},  {kForward, 1, 1}, {kOffload, 1, 1},  {kForward, 0, 2},
                       {kDrop, 1, 3},     {kForward, 2, 3}, {kBackward, 2, 4}, {kPrefetch, 1, 4},
                       {kBackward, 1, 5}, {kBackward, 0, 6}};
  EXPECT_TRUE(Check(steps, 7).ok()) << Check(steps, 7);
}

// x_0 comes back while x_1 leaves.
TEST(CheckChainSchedule, KnowsLinksOfTwoDirections) {
  const Steps steps = {{kOffload, 0, 0},    {kForward, 0, 0}, {kOffload, 1, 1},  {kForward, 1, 1},
                       {kPrefetch, 0, 1.5}, {kForward, 2, 2}, {kBackward, 2, 3}, {kPrefetch, 1, 3},
                       {kBackward, 1, 4},   {kBackward, 0, 5}};
  ChainSchedule schedule = {.steps = steps, .copies = {.full_duplex = true}, .seconds = 6};
  const Chain chain = ThreeOperations();
  EXPECT_EQ(CheckChainSchedule(chain, schedule), absl::OkStatus());
  schedule.copies.full_duplex = false;
  EXPECT_THAT(std::string(CheckChainSchedule(chain, schedule).message()),
              HasSubstr("the prefetch of x_0 at 1.5 s: another transfer has not ended"));
  // The engine doubles the time of each copy.
  schedule.copies = {.full_duplex = true, .compressor = {0.5, 0.5}, .density = 0.5};
  EXPECT_NE(CheckChainSchedule(chain, schedule), absl::OkStatus());
  schedule.copies.compressor = {1e9, 1e9};
  EXPECT_EQ(CheckChainSchedule(chain, schedule), absl::OkStatus());
  schedule.copies = {.full_duplex = true, .latency_seconds = 0.25};
  EXPECT_THAT(std::string(CheckChainSchedule(chain, schedule).message()),
              HasSubstr("B_1 at 4 s: x_1 is not on the device"));
}

TEST(CheckChainSchedule, FindsEachFault) {
  struct Fault {
    Steps steps;
    double seconds;
    const char* text;
  };
  const auto changed = [](Steps steps, std::size_t k, ChainStep step) {
    steps[k] = step;
    return steps;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Steps transfer = WithTransfer();
  const Fault faults[] = {
      {Plain(), 7, "the last step ends at 6 s, and the makespan is 7 s"},
      {Plain(), nan, "a makespan of nan s"},
      {{}, 0, "the schedule ends before B_2"},
      {changed(Plain(), 5, {kForward, 0, 5}), 6, "the schedule ends before B_0"},
      {changed(Plain(), 1, {kForward, 1, 0.5}), 6, "F_1 at 0.5 s: another operation has not ended"},
      {changed(Plain(), 1, {kForward, 1, nan}), 6, "F_1 at nan s: it starts before the last step"},
      {changed(Plain(), 1, {kForward, 3, 1}), 6, "F_3 at 1 s: expected an index from 0 to 2"},
      {changed(Plain(), 1, {kDrop, 4, 1}), 6, "expected an index from 0 to 2"},
      {changed(Plain(), 1, {static_cast<ChainAction>(9), 1, 1}), 6, "step 1 has no action"},
      {changed(Plain(), 1, {kForward, 2, 1}), 6, "F_2 at 1 s: x_2 is not on the device"},
      {changed(Plain(), 3, {kBackward, 1, 3}), 6, "the next backward operation is B_2"},
      {changed(Plain(), 2, {kBackward, 2, 2}), 6, "B_2 at 2 s: x_3 is not on the device"},
      {changed(transfer, 2, {kOffload, 2, 1}), 6, "the offload of x_2 at 1 s: x_2 is not"},
      {changed(transfer, 3, {kOffload, 0, 1.5}), 6, "another transfer has not ended"},
      {changed(transfer, 2, {kPrefetch, 1, 1}), 6, "x_1 is not on the host"},
      {changed(transfer, 5, {kPrefetch, 1, 3.5}), 6, "B_1 at 4 s: x_1 is not on the device"},
      {changed(transfer, 5, {kDrop, 0, 3.5}), 6, "B_1 at 4 s: x_1 is not on the device"},
      {changed(transfer, 3, {kDrop, 1, 1.5}), 6, "x_1 is being copied"},
      {changed(transfer, 3, {kForward, 0, 1.5}), 6, "another operation has not ended"},
      {changed(WithRecomputation(), 2, {kDrop, 1, 1.5}), 7, "the running operation uses x_1"},
      {changed(WithRecomputation(), 5, {kDrop, 1, 4}), 7, "x_1 is not on the device"},
      {{{kForward, 0, 0}, {kForward, 1, 1}, {kOffload, 1, 1.5}, {kForward, 0, 2}},
       3,
       "F_0 at 2 s: x_1 is being copied"},
  };
  for (const Fault& fault : faults) {
    const absl::Status status = Check(fault.steps, fault.seconds);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.text));
  }
  const absl::Status bound = CheckChainSchedule(
      ThreeOperations(), {.steps = Plain(), .seconds = 6, .lower_bound_seconds = 6.5});
  EXPECT_EQ(bound.message(), "the makespan 6 s is below the lower bound 6.5 s");
}

TEST(CheckChainSchedule, RefusesAnActivationThatLeavesOrDiesTooEarly) {
  // The copy of x_1 ends while F_1 runs a second time.
  const Steps leaves = {{kForward, 0, 0}, {kForward, 1, 1}, {kOffload, 1, 2.5}, {kForward, 1, 3}};
  EXPECT_THAT(std::string(Check(leaves, 4).message()),
              HasSubstr("x_1 leaves while an operation uses it"));
  const Steps dies = {{kForward, 0, 0},  {kForward, 1, 1},   {kForward, 2, 2}, {kBackward, 2, 3},
                      {kBackward, 1, 4}, {kOffload, 2, 4.5}, {kBackward, 0, 5}};
  EXPECT_THAT(std::string(Check(dies, 6).message()),
              HasSubstr("B_1 ends while x_2 is being copied"));
}

// Greedy runs the forward half as early and the backward half as late as possible. So no forward
// operation can start earlier, and no backward operation later.
TEST(CheckChainSchedule, RefusesEachOperationThatIsMoved) {
  RandomChains random(3);
  int moved = 0;
  for (int i = 0; i < 300; ++i) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    SCOPED_TRACE(ChainJson(chain));
    const auto schedule = MakeChainSchedule("greedy", chain, {});
    ASSERT_TRUE(schedule.ok());
    ASSERT_TRUE(CheckChainSchedule(chain, *schedule).ok());
    for (std::size_t k = 0; k < schedule->steps.size(); ++k) {
      const ChainStep& step = schedule->steps[k];
      if (step.action != kForward && step.action != kBackward) continue;
      if (step.action == kForward && step.start_seconds == 0) continue;
      ChainSchedule other = *schedule;
      other.steps[k].start_seconds += (step.action == kForward ? -1 : 1) * 0x1p-7;
      std::stable_sort(
          other.steps.begin(), other.steps.end(),
          [](const ChainStep& a, const ChainStep& b) { return a.start_seconds < b.start_seconds; });
      EXPECT_FALSE(CheckChainSchedule(chain, other).ok()) << k;
      ++moved;
    }
  }
  EXPECT_GT(moved, 1000);
}

TEST(ChainSchedules, GiveTheirIndices) {
  ChainSchedule schedule = {.steps = WithRecomputation()};
  EXPECT_THAT(RecomputedIndices(schedule), ::testing::ElementsAre(0));
  EXPECT_THAT(OffloadedIndices(schedule), ::testing::IsEmpty());
  EXPECT_THAT(FirstStarts(schedule, kForward, 3), ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(FirstStarts(schedule, kBackward, 3), ::testing::ElementsAre(6, 5, 3));
  schedule.steps = WithTransfer();
  EXPECT_THAT(OffloadedIndices(schedule), ::testing::ElementsAre(1));
  EXPECT_THAT(FirstStarts(schedule, kPrefetch, 3), ::testing::ElementsAre(-1, 3, -1));
}

// F_0 keeps one byte of x_1's two, and then runs again for all of it.
TEST(CheckChainSchedule, KnowsOutputs) {
  Chain chain = ThreeOperations();
  chain.output = {1, 1, 4, 8};
  chain.output_extra = {8, 0, 16};
  ChainSchedule schedule{.steps = {{kForwardOutput, 0, 0},
                                   {kForward, 1, 1},
                                   {kForward, 2, 2},
                                   {kBackward, 2, 3},
                                   {kBackward, 1, 4},
                                   {kForward, 0, 5},
                                   {kBackward, 0, 6}},
                         .seconds = 7};
  EXPECT_TRUE(CheckChainSchedule(chain, schedule).ok()) << CheckChainSchedule(chain, schedule);
  EXPECT_THAT(RecomputedIndices(schedule), ::testing::ElementsAre(0));
  EXPECT_THAT(FirstStarts(schedule, kForward, 3), ::testing::ElementsAre(0, 1, 2));
  // While B_2 runs, x_0 to x_3 have 14 bytes, and y_2 has 32.
  chain.memory_bytes = 46;
  EXPECT_TRUE(CheckChainSchedule(chain, schedule).ok()) << CheckChainSchedule(chain, schedule);
  chain.memory_bytes = 45;
  EXPECT_THAT(std::string(CheckChainSchedule(chain, schedule).message()),
              HasSubstr("46 bytes are in use"));
  chain.memory_bytes = kRoom;
  chain.runs_once = {0};
  EXPECT_THAT(std::string(CheckChainSchedule(chain, schedule).message()),
              HasSubstr("F_0 at 5 s: the operation may not run again"));
  schedule.steps.erase(schedule.steps.begin() + 5);
  EXPECT_THAT(std::string(CheckChainSchedule(chain, schedule).message()),
              HasSubstr("only the output of x_1 is on the device"));
}

}  // namespace
}  // namespace tidepool
