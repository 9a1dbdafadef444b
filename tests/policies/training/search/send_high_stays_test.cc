// SPDX-License-Identifier: Apache-2.0
// Data that leaves so that a plan of addresses fits.
#include "policies/training/search/send_high_stays.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace tidepool::search {
namespace {

using schedule::HighStay;

// Five runs of a second each, with three data: datum 0 may be away in runs 1 to 3, as datum 1,
// which has more bytes and takes longer to copy, and datum 2 in run 2 alone.
transfers::Iteration MadeIteration() {
  transfers::Iteration iteration;
  iteration.runs.resize(5);
  iteration.problem.transfers = {
      .seconds = {1, 1, 1, 1, 1},
      .running_bytes = {30, 30, 30, 30, 30},
      .resting_bytes = {30, 30, 30, 30, 30, 30},
      .absences = {{.bytes = 8, .left = 1, .needed = 4, .out_seconds = 1, .in_seconds = 1},
                   {.bytes = 16, .left = 1, .needed = 4, .out_seconds = 2, .in_seconds = 2},
                   {.bytes = 4, .left = 2, .needed = 3, .out_seconds = 0.1, .in_seconds = 0.1}},
      .memory_bytes = 40,
      .full_duplex = true};
  iteration.problem.moved = {{.data = 0}, {.data = 1}, {.data = 2}};
  iteration.is_away.resize(3);
  return iteration;
}

Schedule FiveRuns() {
  Schedule schedule;
  for (std::size_t task = 0; task < 5; ++task) {
    schedule.steps.push_back({.kind = StepKind::kRun, .index = task});
  }
  return schedule;
}

HighStay StayOf(std::size_t data, std::int64_t first_step, std::int64_t end_step,
                std::int64_t above) {
  return {.key = {.kind = StepKind::kAllocate, .index = data},
          .first_step = first_step,
          .end_step = end_step,
          .bytes_above = above};
}

bool GoOn(std::size_t /*work*/) { return true; }

TEST(SendHighStays, SendsTheDatumItself) {
  transfers::Iteration iteration = MadeIteration();
  EXPECT_TRUE(SendHighStays(FiveRuns(), {StayOf(0, 0, 5, 8)}, GoOn, iteration));
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{true, false, false}));
}

TEST(SendHighStays, SendsTheDatumThatMakesRoomInTheLeastTime) {
  transfers::Iteration iteration = MadeIteration();
  const HighStay workspace = {.key = {.kind = StepKind::kRun, .index = 2},
                              .first_step = 2,
                              .end_step = 3,
                              .bytes_above = 6};
  EXPECT_TRUE(SendHighStays(FiveRuns(), {workspace}, GoOn, iteration));
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{true, false, false}));
}

TEST(SendHighStays, SendsAsManyBytesAsAreAbove) {
  transfers::Iteration iteration = MadeIteration();
  EXPECT_TRUE(SendHighStays(FiveRuns(), {StayOf(9, 2, 3, 12)}, GoOn, iteration));
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{false, true, false}));
}

TEST(SendHighStays, SendsOneDatumForSeveralStaysThatItHasRoomFor) {
  transfers::Iteration iteration = MadeIteration();
  EXPECT_TRUE(
      SendHighStays(FiveRuns(), {StayOf(8, 2, 3, 5), StayOf(9, 1, 2, 12)}, GoOn, iteration));
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{true, true, false}));
  iteration = MadeIteration();
  EXPECT_TRUE(
      SendHighStays(FiveRuns(), {StayOf(8, 2, 3, 4), StayOf(9, 1, 2, 12)}, GoOn, iteration));
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{false, true, false}));
}

TEST(SendHighStays, SaysThatNoDatumCanLeave) {
  transfers::Iteration iteration = MadeIteration();
  EXPECT_FALSE(SendHighStays(FiveRuns(), {}, GoOn, iteration));
  EXPECT_FALSE(SendHighStays(FiveRuns(), {StayOf(9, 0, 5, 4)}, GoOn, iteration));
  EXPECT_FALSE(SendHighStays(FiveRuns(), {StayOf(9, 2, 3, 17)}, GoOn, iteration));
  iteration.is_away = {true, true, true};
  EXPECT_FALSE(SendHighStays(FiveRuns(), {StayOf(0, 0, 5, 8)}, GoOn, iteration));
}

TEST(SendHighStays, EndsWhenItMayNotGoOn) {
  transfers::Iteration iteration = MadeIteration();
  int asked = 0;
  const auto go_on = [&](std::size_t work) {
    EXPECT_EQ(work, 8U);  // five runs and three absences
    return ++asked < 1;
  };
  EXPECT_TRUE(
      SendHighStays(FiveRuns(), {StayOf(0, 0, 5, 8), StayOf(9, 2, 3, 16)}, go_on, iteration));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace tidepool::search
