// SPDX-License-Identifier: Apache-2.0
// Changes of a set of absences that make a schedule faster.
#include <gtest/gtest.h>

#include <vector>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::transfers {
namespace {

// All fits without any absence, and each copy delays an operation.
TransferProblem RoomyProblem() {
  return {.seconds = {1, 1, 1},
          .running_bytes = {10, 10, 10},
          .resting_bytes = {10, 10, 10, 10},
          .absences = {{.bytes = 4, .left = 1, .needed = 2, .out_seconds = 3, .in_seconds = 3},
                       {.bytes = 2, .left = 1, .needed = 2, .out_seconds = 1, .in_seconds = 1}},
          .memory_bytes = 10};
}

TEST(ChangeForLess, FindsAFasterSet) {
  const TransferProblem problem = RoomyProblem();
  std::vector<bool> set = {true, true};
  const double seconds = TransferDispatcher(problem).Run(set);
  ASSERT_TRUE(ChangeForLess(problem, seconds, 1000, 1, set));
  EXPECT_LT(TransferDispatcher(problem).Run(set), seconds);
}

TEST(ChangeForLess, LeavesTheFastestSet) {
  const TransferProblem problem = RoomyProblem();
  std::vector<bool> set = {false, false};
  EXPECT_FALSE(ChangeForLess(problem, TransferDispatcher(problem).Run(set), 1000, 1, set));
  EXPECT_EQ(set, (std::vector<bool>{false, false}));
}

TEST(ChangeForLess, TakesNoAbsences) {
  TransferProblem problem = RoomyProblem();
  problem.absences.clear();
  std::vector<bool> set;
  EXPECT_FALSE(ChangeForLess(problem, 100, 1000, 1, set));
}

}  // namespace
}  // namespace tidepool::transfers
