// SPDX-License-Identifier: Apache-2.0
// Searches against a model that tries every order of starts.
#include "policies/training/transfers/transfer_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/transfer_dispatch.h"
#include "tests/policies/training/transfers/random_transfers.h"
#include "tests/policies/training/transfers/slow_transfers.h"

namespace tidepool::transfers {
namespace {

using testing::RandomTransfers;
using testing::SlowSearch;
using testing::SlowTransfers;

constexpr double kNever = std::numeric_limits<double>::infinity();

SearchLimits Unlimited(const TransferProblem& problem) {
  return {.width = 1'000'000, .branching = problem.absences.size() + 1};
}

// One operation needs the memory of data that both its neighbours use.
TransferProblem Squeezed() {
  return {
      .seconds = {1, 2, 1},
      .running_bytes = {4, 8, 4},
      .resting_bytes = {0, 4, 4, 0},
      .absences =
          {{.bytes = 4, .written = 1, .left = 1, .needed = 2, .out_seconds = 3, .in_seconds = 5}},
      .memory_bytes = 4};
}

TEST(TransferSearch, SendsDataThatIsInTheWay) {
  const TransferProblem problem = Squeezed();
  const SearchResult found = SearchTransfers(problem, TransferBounds(problem), Unlimited(problem));
  EXPECT_EQ(found.seconds, 1 + 3 + 2 + 5 + 1);
  EXPECT_TRUE(found.is_complete);
  using Kind = TransferAction::Kind;
  EXPECT_EQ(found.actions, (std::vector<TransferAction>{{Kind::kOperation, 0, 0},
                                                        {Kind::kOut, 0, 1},
                                                        {Kind::kOperation, 1, 4},
                                                        {Kind::kIn, 0, 6},
                                                        {Kind::kOperation, 2, 11}}));
}

TEST(TransferSearch, FindsNothingWhereAnOperationDoesNotFit) {
  TransferProblem problem = Squeezed();
  problem.memory_bytes = 3;
  const TransferBounds bounds(problem);
  EXPECT_EQ(bounds.first_unfit(), 0U);
  const SearchResult found = SearchTransfers(problem, bounds, Unlimited(problem));
  EXPECT_TRUE(found.actions.empty());
  EXPECT_EQ(found.seconds, kNever);
}

TEST(TransferSearch, FindsTheBestOfAllOrders) {
  RandomTransfers random(1);
  int moved = 0;
  int impossible = 0;
  for (int i = 0; i < 600; ++i) {
    const TransferProblem problem = random.Next(static_cast<std::size_t>(2 + random.Below(3)),
                                                static_cast<std::size_t>(random.Below(3)));
    SCOPED_TRACE(i);
    const SearchResult found =
        SearchTransfers(problem, TransferBounds(problem), Unlimited(problem));
    EXPECT_TRUE(found.is_complete);
    ASSERT_EQ(found.seconds, SlowSearch(problem).Search());
    impossible += found.actions.empty() ? 1 : 0;
    if (found.actions.empty()) continue;
    moved += found.actions.size() > problem.seconds.size() ? 1 : 0;
    EXPECT_EQ(SlowTransfers(problem, found.actions).Fault(), "");
    EXPECT_EQ(SlowTransfers(problem, found.actions).EndOfAll(), found.seconds);
  }
  EXPECT_GT(moved, 50);
  EXPECT_GT(impossible, 20);
}

// A narrow beam may find a slower schedule, or none, but no wrong one, and knows that it left some
// out.
TEST(TransferSearch, NarrowBeamsFindValidSchedules) {
  RandomTransfers random(2);
  int found_some = 0;
  for (int i = 0; i < 400; ++i) {
    const TransferProblem problem = random.Next(12, 6);
    const TransferBounds bounds(problem);
    SCOPED_TRACE(i);
    const SearchResult best = SearchTransfers(problem, bounds, Unlimited(problem));
    const SearchResult found = SearchTransfers(problem, bounds, {.width = 8, .branching = 2});
    EXPECT_GE(found.seconds, best.seconds);
    EXPECT_EQ(found.is_complete && found.seconds != best.seconds, false);
    if (found.actions.empty()) continue;
    ++found_some;
    EXPECT_EQ(SlowTransfers(problem, found.actions).Fault(), "");
    EXPECT_EQ(SlowTransfers(problem, found.actions).EndOfAll(), found.seconds);
  }
  EXPECT_GT(found_some, 50);
}

TEST(TransferSearch, LooksForFasterSchedulesAlone) {
  const TransferProblem problem = Squeezed();
  const TransferBounds bounds(problem);
  SearchLimits limits = Unlimited(problem);
  limits.below_seconds = 12;
  const SearchResult found = SearchTransfers(problem, bounds, limits);
  EXPECT_TRUE(found.actions.empty());
  EXPECT_TRUE(found.is_complete);
  limits.below_seconds = 12.5;
  EXPECT_EQ(SearchTransfers(problem, bounds, limits).seconds, 12);
}

TEST(TransferSearch, EndsWhenItIsStopped) {
  RandomTransfers random(3);
  const TransferProblem problem = random.Next(12, 6);
  SearchLimits limits = Unlimited(problem);
  budget::Budget budget(0, {});
  limits.budget = &budget;
  EXPECT_FALSE(SearchTransfers(problem, TransferBounds(problem), limits).is_complete);
}

TEST(TransferBounds, NeverExceedTheBestSchedule) {
  RandomTransfers random(4);
  for (int i = 0; i < 500; ++i) {
    const TransferProblem problem = random.Next(6, 4);
    const TransferBounds bounds(problem);
    const SearchResult best = SearchTransfers(problem, bounds, Unlimited(problem));
    EXPECT_LE(bounds.Of({}), best.seconds) << i;
    const bool is_unfit = bounds.first_unfit() < problem.seconds.size();
    EXPECT_FALSE(is_unfit && best.seconds < kNever);
  }
}

TEST(TransferDispatcher, MakesValidSchedulesOfAnySet) {
  RandomTransfers random(5);
  int finished = 0;
  for (int i = 0; i < 3000; ++i) {
    const TransferProblem problem = random.Next(10, 6);
    std::vector<bool> set(problem.absences.size());
    for (std::size_t g = 0; g < set.size(); ++g) set[g] = random.Below(2) == 0;
    std::vector<TransferAction> actions;
    const double seconds = TransferDispatcher(problem).Run(set, &actions);
    if (seconds == kNever) continue;
    SCOPED_TRACE(i);
    ++finished;
    ASSERT_EQ(SlowTransfers(problem, actions).Fault(), "");
    EXPECT_EQ(SlowTransfers(problem, actions).EndOfAll(), seconds);
  }
  EXPECT_GT(finished, 300);
}

// Data at home on the host is away before its first use and after its last one in any set.
TEST(TransferDispatcher, MakesValidSchedulesOfDataAtHomeOnTheHost) {
  RandomTransfers random(11);
  int began = 0;
  int ended = 0;
  for (int i = 0; i < 3000; ++i) {
    TransferProblem problem = random.Next(10, 6);
    random.LetDataBeAwayAtEnds(problem);
    std::vector<bool> set(problem.absences.size());
    for (std::size_t g = 0; g < set.size(); ++g) set[g] = random.Below(2) == 0;
    std::vector<TransferAction> actions;
    TransferDispatcher dispatcher(problem);
    const double seconds = dispatcher.Run(set, &actions);
    if (seconds == kNever) continue;
    SCOPED_TRACE(i);
    ASSERT_EQ(SlowTransfers(problem, actions).Fault(), "");
    EXPECT_EQ(SlowTransfers(problem, actions).EndOfAll(), seconds);
    EXPECT_EQ(dispatcher.RunWithin(seconds, set), seconds);
    EXPECT_LE(TransferBounds(problem).Of({}), seconds);
    for (const Absence& absence : problem.absences) {
      began += absence.begins_away ? 1 : 0;
      ended += absence.ends_away ? 1 : 0;
    }
  }
  EXPECT_GT(began, 30);
  EXPECT_GT(ended, 300);
}

TEST(TransferDispatcher, GivesTheSameAnswerAgain) {
  RandomTransfers random(6);
  for (int i = 0; i < 100; ++i) {
    const TransferProblem problem = random.Next(10, 6);
    TransferDispatcher dispatcher(problem);
    const std::vector<bool> all(problem.absences.size(), true);
    const double seconds = dispatcher.Run(all);
    dispatcher.Run(std::vector<bool>(problem.absences.size(), false));
    EXPECT_EQ(dispatcher.Run(all), seconds);
  }
}

TEST(TransferDispatcher, FindsTheMakespanWhereItIsWithinALimit) {
  RandomTransfers random(9);
  int longer = 0;
  for (int i = 0; i < 3000; ++i) {
    const TransferProblem problem = random.Next(10, 6);
    TransferDispatcher dispatcher(problem);
    const std::vector<bool> set = EagerSet(problem);
    const double seconds = dispatcher.Run(set);
    const auto most = static_cast<double>(random.Below(40));
    SCOPED_TRACE(i);
    if (seconds <= most) {
      EXPECT_EQ(dispatcher.RunWithin(most, set), seconds);
    } else {
      EXPECT_GT(dispatcher.RunWithin(most, set), most);
      longer += seconds < kNever ? 1 : 0;
    }
    EXPECT_EQ(dispatcher.RunWithin(seconds, set), seconds);
  }
  EXPECT_GT(longer, 300);
}

// Whether an operation in an absence does not fit with a set.
bool IsShort(const TransferProblem& problem, const std::vector<bool>& set, const Absence& where) {
  for (std::size_t k = where.left; k < where.needed; ++k) {
    std::int64_t bytes = problem.running_bytes[k];
    for (std::size_t g = 0; g < set.size(); ++g) {
      const Absence& absence = problem.absences[g];
      if (set[g] && absence.left <= k && k < absence.needed) bytes -= absence.bytes;
    }
    if (bytes > problem.memory_bytes) return true;
  }
  return false;
}

TEST(EagerSet, TakesAbsencesThatEndLastWhereAnOperationDoesNotFit) {
  RandomTransfers random(10);
  for (int i = 0; i < 1000; ++i) {
    TransferProblem problem = random.Next(12, 8);
    for (Absence& absence : problem.absences) absence.is_at_home = random.Below(3) == 0;
    std::vector<std::size_t> order(problem.absences.size());
    for (std::size_t g = 0; g < order.size(); ++g) order[g] = g;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Absence& one = problem.absences[a];
      const Absence& other = problem.absences[b];
      return std::tie(one.is_at_home, other.needed) < std::tie(other.is_at_home, one.needed);
    });
    std::vector<bool> expected(order.size());
    for (const std::size_t g : order) expected[g] = IsShort(problem, expected, problem.absences[g]);
    EXPECT_EQ(EagerSet(problem), expected) << i;
  }
}

TEST(EagerSet, MakesOperationsFit) {
  RandomTransfers random(7);
  for (int i = 0; i < 1000; ++i) {
    const TransferProblem problem = random.Next(10, 6);
    const std::vector<bool> set = EagerSet(problem);
    SCOPED_TRACE(i);
    for (std::size_t k = 0; k < problem.seconds.size(); ++k) {
      std::int64_t without_any = problem.running_bytes[k];
      std::int64_t without_set = problem.running_bytes[k];
      for (std::size_t g = 0; g < set.size(); ++g) {
        const Absence& absence = problem.absences[g];
        if (absence.left > k || absence.needed <= k) continue;
        without_any -= absence.bytes;
        if (set[g]) without_set -= absence.bytes;
      }
      EXPECT_LE(without_set, std::max(without_any, problem.memory_bytes));
    }
  }
}

// Adds and takes back absences in the order of EagerSet, one look at all operations for each.
std::vector<bool> FittedSlowly(const TransferProblem& problem, std::vector<bool> set) {
  std::vector<std::size_t> order(set.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return problem.absences[a].needed > problem.absences[b].needed;
  });
  for (const std::size_t g : order) {
    set[g] = set[g] || IsShort(problem, set, problem.absences[g]);
  }
  std::reverse(order.begin(), order.end());
  for (const std::size_t g : order) {
    const bool was_away = set[g];
    set[g] = false;
    set[g] = was_away && IsShort(problem, set, problem.absences[g]);
  }
  return set;
}

TEST(FitSet, AddsAbsencesWhereOperationsDoNotFitAndTakesTheOthersBack) {
  RandomTransfers random(13);
  int more = 0;
  int less = 0;
  for (int i = 0; i < 1000; ++i) {
    const TransferProblem problem = random.Next(12, 8);
    std::vector<bool> before;
    for (std::size_t g = 0; g < problem.absences.size(); ++g) {
      before.push_back(random.Below(2) == 0);
    }
    std::vector<bool> set = before;
    FitSet(problem, set);
    EXPECT_EQ(set, FittedSlowly(problem, before)) << i;
    more +=
        std::count(set.begin(), set.end(), true) > std::count(before.begin(), before.end(), true);
    less +=
        std::count(set.begin(), set.end(), true) < std::count(before.begin(), before.end(), true);
  }
  EXPECT_GT(more, 100);
  EXPECT_GT(less, 100);
}

TEST(FitSet, LeavesDataThatIsAlwaysAway) {
  RandomTransfers random(14);
  for (int i = 0; i < 300; ++i) {
    TransferProblem problem = random.Next(12, 8);
    random.LetDataBeAwayAtEnds(problem);
    std::vector<bool> set = EagerSet(problem);
    FitSet(problem, set);
    for (std::size_t g = 0; g < set.size(); ++g) {
      EXPECT_TRUE(set[g] || !problem.absences[g].is_always_away()) << i;
    }
  }
}

TEST(ImproveSet, NeverMakesASetWorse) {
  RandomTransfers random(8);
  int better = 0;
  for (int i = 0; i < 200; ++i) {
    const TransferProblem problem = random.Next(10, 6);
    std::vector<bool> set = EagerSet(problem);
    const double before = TransferDispatcher(problem).Run(set);
    int steps = 200;
    const double after = ImproveSet(
        problem, 0, 1, [&](std::size_t /*work*/) { return steps-- > 0; }, set);
    EXPECT_LE(after, before);
    EXPECT_EQ(TransferDispatcher(problem).Run(set), after);
    better += after < before ? 1 : 0;
    const SearchResult best = SearchTransfers(problem, TransferBounds(problem), Unlimited(problem));
    EXPECT_GE(after, best.seconds);
  }
  EXPECT_GT(better, 2);
}

}  // namespace
}  // namespace tidepool::transfers
