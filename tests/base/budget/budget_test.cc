// SPDX-License-Identifier: Apache-2.0
// Tests the ends of a budget: work, the clock, a stop, or the whole that it is part of.
#include "lib/base/budget/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>

namespace tidepool::budget {
namespace {

int StepsOf(Budget budget) {
  int steps = 0;
  while (budget.Take()) ++steps;
  return steps;
}

TEST(Budget, GivesAllOfItsWork) {
  for (int work = 0; work < 50; ++work) EXPECT_EQ(StepsOf(Budget(work, 1e9, {})), work);
}

TEST(Budget, GivesWholeStepsOfWork) {
  EXPECT_EQ(StepsOf(Budget(2.5, 1e9, {})), 2);
  EXPECT_EQ(StepsOf(Budget(-1, 1e9, {})), 0);
}

TEST(Budget, TellsTheWorkThatIsLeft) {
  Budget budget(10, 1e9, {});
  EXPECT_TRUE(budget.Take(7));
  EXPECT_EQ(budget.work_left(), 3);
  EXPECT_FALSE(budget.Take(4));
  EXPECT_EQ(budget.work_left(), 0);
}

TEST(Budget, IsNotOverBeforeTheClockWhenItsWorkIs) {
  Budget budget(0, 1e9, {});
  EXPECT_FALSE(budget.Take());
  EXPECT_FALSE(budget.HasEnded());
  EXPECT_FALSE(budget.timed_out());
}

TEST(Budget, HasNoEndByDefault) {
  Budget budget;
  EXPECT_TRUE(budget.Take(1e300));
  EXPECT_FALSE(budget.HasEnded());
  EXPECT_TRUE(std::isinf(budget.SecondsLeft()));
}

TEST(Budget, EndsByTheClock) {
  Budget budget(0, {});
  EXPECT_FALSE(budget.Take());
  EXPECT_EQ(budget.SecondsLeft(), 0);
  EXPECT_TRUE(budget.timed_out());
  EXPECT_FALSE(budget.is_stopped());
}

TEST(Budget, EndsAtAStop) {
  std::stop_source source;
  Budget budget(1e9, source.get_token());
  EXPECT_TRUE(budget.Take());
  EXPECT_GT(budget.SecondsLeft(), 1e8);
  source.request_stop();
  EXPECT_EQ(budget.SecondsLeft(), 0);
  EXPECT_TRUE(budget.is_stopped());
  EXPECT_FALSE(budget.timed_out());
}

TEST(Budget, StaysEndedOnceItHasSeenAStop) {
  std::stop_source source;
  Budget budget(1e9, source.get_token());
  source.request_stop();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(budget.Take());
  EXPECT_EQ(budget.work_left(), 0);
}

TEST(Budget, LooksAtTheClockAfterSixteenSteps) {
  std::stop_source source;
  Budget budget(1e9, source.get_token());
  EXPECT_TRUE(budget.Take());
  source.request_stop();
  int steps = 0;
  while (budget.Take()) ++steps;
  EXPECT_EQ(steps, 15);
}

TEST(Budget, PartEndsWithTheWhole) {
  std::stop_source source;
  Budget whole(1e9, source.get_token());
  Budget part(whole, 100);
  EXPECT_TRUE(part.Take());
  source.request_stop();
  EXPECT_TRUE(part.HasEnded());
  EXPECT_TRUE(whole.is_stopped());
}

TEST(Budget, PartHasWorkOfItsOwn) {
  Budget whole(5, 1e9, {});
  EXPECT_EQ(StepsOf(Budget(whole, 9)), 9);
  EXPECT_EQ(whole.work_left(), 5);
}

TEST(Budget, WholeNotesThatTheClockEndsAPart) {
  Budget whole(1e9, {});
  Budget middle(whole, 1);
  Budget part(middle, 1, 0);
  EXPECT_FALSE(part.Take());
  EXPECT_TRUE(whole.timed_out());
  EXPECT_FALSE(whole.HasEnded());
}

TEST(Budget, PartOfAnEndedWholeHasNoTime) {
  Budget whole(0, {});
  EXPECT_EQ(Budget(whole, 1, 1e9).SecondsLeft(), 0);
}

}  // namespace
}  // namespace tidepool::budget
