// SPDX-License-Identifier: Apache-2.0
// The planned placement: offsets as planned, and iterations that differ from the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "lib/memory/blocks/arena.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

std::shared_ptr<const PlacementPlan> PlanOf(std::vector<PlannedRequest> requests) {
  return std::make_shared<const PlacementPlan>(std::move(requests));
}

// An iteration of requests with different sizes, each freed some requests later.
struct Iteration {
  struct Event {
    std::size_t request = 0;
    bool is_free = false;
  };
  std::vector<std::int64_t> bytes;
  std::vector<Event> events;
  std::shared_ptr<const PlacementPlan> plan;
};

// The first size is 1, so that iterations begin alike; the others are different.
Iteration RandomIteration(std::mt19937_64& random, std::size_t requests) {
  Iteration iteration;
  iteration.bytes.resize(requests);
  std::iota(iteration.bytes.begin(), iteration.bytes.end(), 1);
  std::shuffle(iteration.bytes.begin() + 1, iteration.bytes.end(), random);
  PlanProblem problem;
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < requests; ++i) {
    while (!live.empty() && random() % 3 != 0) {
      std::swap(live[random() % live.size()], live.back());
      problem.buffers[live.back()].upper = static_cast<std::int64_t>(iteration.events.size());
      iteration.events.push_back({live.back(), true});
      live.pop_back();
    }
    problem.buffers.push_back(
        {.lower = static_cast<std::int64_t>(iteration.events.size()), .bytes = iteration.bytes[i]});
    iteration.events.push_back({i, false});
    live.push_back(i);
  }
  for (const std::size_t last : live) {
    problem.buffers[last].upper = static_cast<std::int64_t>(iteration.events.size());
    iteration.events.push_back({last, true});
  }
  const Plan plan = MakePlan(problem, {.time_limit_seconds = 0}).value();
  std::vector<PlannedRequest> planned;
  for (std::size_t i = 0; i < requests; ++i)
    planned.push_back({iteration.bytes[i], plan.offsets[i]});
  iteration.plan = PlanOf(std::move(planned));
  return iteration;
}

// An arena that serves iterations, in which all was freed at their ends.
class Server {
 public:
  Server(std::int64_t capacity, PlannedPlacement& policy) : arena_(capacity, 1, policy) {}

  // Offsets by request. `instead` has one size a request: 0 leaves it out.
  std::vector<std::int64_t> Serve(const Iteration& iteration,
                                  const std::vector<std::int64_t>& instead) {
    std::vector<std::int64_t> offsets(iteration.bytes.size(), -1);
    for (const auto& [request, is_free] : iteration.events) {
      if (instead[request] == 0) continue;
      if (is_free) {
        EXPECT_TRUE(arena_.Free(offsets[request]));
      } else {
        offsets[request] = arena_.Allocate(instead[request], Hint::kResident);
        EXPECT_GE(offsets[request], 0);
      }
      EXPECT_TRUE(arena_.blocks().CheckInvariants().ok()) << arena_.blocks().CheckInvariants();
    }
    return offsets;
  }
  std::vector<std::int64_t> Serve(const Iteration& iteration) {
    return Serve(iteration, iteration.bytes);
  }

  blocks::Arena& arena() { return arena_; }

 private:
  blocks::Arena arena_;
};

std::vector<std::int64_t> OffsetsOf(const PlacementPlan& plan) {
  std::vector<std::int64_t> offsets;
  for (const PlannedRequest& request : plan.requests()) offsets.push_back(request.offset);
  return offsets;
}

TEST(PlannedTest, FollowsAPlanAgainAndAgain) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const Iteration iteration = RandomIteration(random, 1 + random() % 40);
    const auto policy = PlannedPlacement::Create({iteration.plan});
    Server server(iteration.plan->height_bytes(), *policy);
    for (int again = 0; again < 5; ++again) {
      if (again == 3) policy->BeginIteration({iteration.plan});  // it need not be said
      ASSERT_EQ(server.Serve(iteration), OffsetsOf(*iteration.plan));
      EXPECT_TRUE(policy->IsAtEnd());
    }
    EXPECT_EQ(policy->counts().deviations, 0);
    EXPECT_EQ(policy->counts().planned, 5 * static_cast<std::int64_t>(iteration.bytes.size()));
    EXPECT_EQ(server.arena().high_water(), iteration.plan->height_bytes());
  }
}

TEST(PlannedTest, IsBestFitWithoutAPlan) {
  const auto policy = PlannedPlacement::Create();
  blocks::Arena arena(20, 1, *policy);
  const auto best_fit = *MakePlacementPolicy("best-fit");
  blocks::Arena expected(20, 1, *best_fit);
  std::mt19937_64 random(2);
  std::vector<std::int64_t> live;
  for (int step = 0; step < 2'000; ++step) {
    const auto bytes = static_cast<std::int64_t>(1 + random() % 5);
    const std::int64_t offset = arena.Allocate(bytes, Hint::kResident);
    ASSERT_EQ(offset, expected.Allocate(bytes, Hint::kResident));
    if (offset >= 0) {
      live.push_back(offset);
      continue;
    }
    std::swap(live[random() % live.size()], live.back());
    ASSERT_TRUE(arena.Free(live.back()) && expected.Free(live.back()));
    live.pop_back();
  }
  EXPECT_EQ(policy->counts().planned + policy->counts().deviations, 0);
  EXPECT_EQ(policy->followed(), nullptr);
}

class OneDeviationTest : public ::testing::Test {
 protected:
  // Serves the iteration with one change, in twice the memory, and then as planned.
  void Check(const Iteration& iteration, const std::vector<std::int64_t>& instead,
             std::size_t changed) {
    const auto policy = PlannedPlacement::Create({iteration.plan});
    Server server(2 * iteration.plan->height_bytes() + 10'000, *policy);
    std::vector<std::int64_t> offsets = server.Serve(iteration, instead);
    std::vector<std::int64_t> expected = OffsetsOf(*iteration.plan);
    if (instead[changed] != iteration.bytes[changed]) expected[changed] = offsets[changed];
    EXPECT_EQ(offsets, expected) << changed;
    policy->BeginIteration({iteration.plan});
    EXPECT_EQ(policy->counts().deviations, 1) << changed << " of " << iteration.bytes.size();
    EXPECT_EQ(server.Serve(iteration), OffsetsOf(*iteration.plan));
    EXPECT_EQ(policy->counts().deviations, 1);
  }

  std::mt19937_64 random_{3};
};

TEST_F(OneDeviationTest, AnotherSizeLeavesTheRestAsItWas) {
  for (int round = 0; round < 100; ++round) {
    const Iteration iteration = RandomIteration(random_, 2 + random_() % 60);
    const std::size_t changed = random_() % iteration.bytes.size();
    std::vector<std::int64_t> instead = iteration.bytes;
    instead[changed] = 5'000;
    Check(iteration, instead, changed);
  }
}

TEST_F(OneDeviationTest, AMissingRequestLeavesTheRestAsItWas) {
  for (int round = 0; round < 100; ++round) {
    const Iteration iteration = RandomIteration(random_, 2 + random_() % 60);
    const std::size_t changed = random_() % iteration.bytes.size();
    std::vector<std::int64_t> instead = iteration.bytes;
    instead[changed] = 0;
    Check(iteration, instead, changed);
  }
}

TEST_F(OneDeviationTest, AnExtraRequestLeavesTheRestAsItWas) {
  for (int round = 0; round < 100; ++round) {
    Iteration iteration = RandomIteration(random_, 2 + random_() % 60);
    std::vector<std::int64_t> planned = iteration.bytes;
    // An additional request, live to the end, that the plan does not have.
    const std::size_t extra = iteration.bytes.size();
    const std::size_t at = random_() % iteration.events.size();
    iteration.bytes.push_back(5'000);
    iteration.events.insert(iteration.events.begin() + static_cast<std::ptrdiff_t>(at),
                            {extra, false});
    iteration.events.push_back({extra, true});
    const auto policy = PlannedPlacement::Create({iteration.plan});
    Server server(2 * iteration.plan->height_bytes() + 10'000, *policy);
    for (int again = 1; again <= 3; ++again) {
      policy->BeginIteration({iteration.plan});
      std::vector<std::int64_t> offsets = server.Serve(iteration);
      EXPECT_GE(offsets.back(), iteration.plan->height_bytes());
      offsets.pop_back();
      EXPECT_EQ(offsets, OffsetsOf(*iteration.plan));
      policy->BeginIteration({});
      EXPECT_EQ(policy->counts().deviations, again);
    }
  }
}

// In iterations of any kind no blocks overlap (the arena is checked at every step), all requests
// are counted, and an iteration as planned is served as planned.
TEST(PlannedTest, SurvivesIterationsOfAnyKind) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 30; ++round) {
    const Iteration iteration = RandomIteration(random, 1 + random() % 50);
    const auto policy = PlannedPlacement::Create({iteration.plan});
    Server server(20 * iteration.plan->height_bytes() + 10'000, *policy);
    std::vector<std::int64_t> instead = iteration.bytes;
    for (std::int64_t& bytes : instead) {
      if (random() % 4 == 0) bytes = static_cast<std::int64_t>(random() % 60);
    }
    const auto came = std::ranges::count_if(instead, [](std::int64_t bytes) { return bytes > 0; });
    server.Serve(iteration, instead);
    EXPECT_EQ(policy->followed(), iteration.plan.get());
    const PlannedCounts counts = policy->counts();
    policy->BeginIteration({iteration.plan});
    EXPECT_GE(policy->counts().deviations, counts.deviations);
    EXPECT_GE(counts.planned + counts.deviations, came);
    EXPECT_LE(counts.planned, came);
    const std::int64_t deviations = policy->counts().deviations;
    EXPECT_EQ(server.Serve(iteration), OffsetsOf(*iteration.plan));
    EXPECT_EQ(policy->counts().deviations, deviations);
  }
}

TEST(PlannedTest, ComesBackAfterMuchThatIsMissing) {
  std::vector<PlannedRequest> requests;
  for (std::int64_t i = 0; i < 300; ++i) requests.push_back({i + 1, 0});
  const auto plan = PlanOf(requests);
  const auto policy = PlannedPlacement::Create({plan});
  blocks::Arena arena(1000, 1, *policy);
  const auto serve = [&](std::int64_t bytes) {
    const std::int64_t offset = arena.Allocate(bytes, Hint::kResident);
    arena.Free(offset);
    return offset;
  };
  for (std::int64_t i = 0; i < 300; ++i) {
    if (i >= 100 && i < 150) continue;  // 50 are missing
    EXPECT_EQ(serve(i + 1), 0) << i;
  }
  EXPECT_TRUE(policy->IsAtEnd());
  EXPECT_EQ(policy->counts().deviations, 50);
}

// The sizes 2 and 5 come in several places of the plan, but one after the other in one of them.
TEST(PlannedTest, FindsItsWayBackByTwoSizesInARow) {
  std::vector<PlannedRequest> requests;
  for (const std::int64_t bytes : {1, 7, 2, 3, 4, 5, 2, 5, 6}) {
    requests.push_back({bytes, 10 * static_cast<std::int64_t>(requests.size())});
  }
  const auto policy = PlannedPlacement::Create({PlanOf(requests)});
  blocks::Arena arena(1000, 1, *policy);
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(2, Hint::kResident), 20);  // a guess
  EXPECT_EQ(arena.Allocate(5, Hint::kResident), 70);
  EXPECT_EQ(arena.Allocate(6, Hint::kResident), 80);
  EXPECT_TRUE(policy->IsAtEnd());
}

TEST(PlannedTest, GivesUpAnIterationThatIsAnother) {
  const auto plan = PlanOf({{1, 0}, {2, 0}, {3, 0}});
  const auto policy = PlannedPlacement::Create({plan});
  blocks::Arena arena(1000, 1, *policy);
  int requests = 0;
  for (; policy->followed() != nullptr; ++requests) {
    arena.Free(arena.Allocate(7, Hint::kResident));
    ASSERT_LT(requests, 1000);
  }
  EXPECT_EQ(policy->counts().deviations, requests);
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 0);  // best-fit
  EXPECT_EQ(policy->counts().planned, 0);
  policy->BeginIteration({plan});
  EXPECT_EQ(policy->followed(), plan.get());
}

// A request that no plan has came between those of the shorter plan.
TEST(PlannedTest, AnIterationWithAnotherRequestIsNoShorterPlan) {
  const PlacementPlans plans = {PlanOf({{1, 10}, {2, 20}, {3, 30}}), PlanOf({{1, 10}, {2, 20}})};
  const auto policy = PlannedPlacement::Create(plans);
  blocks::Arena arena(1000, 1, *policy);
  for (const std::int64_t bytes : {1, 9, 2}) arena.Free(arena.Allocate(bytes, Hint::kResident));
  policy->BeginIteration(plans);
  EXPECT_EQ(policy->counts().deviations, 2);  // 9, and 3, which did not come
}

TEST(PlannedTest, TakesThePlanThatBeginsAsTheIterationDid) {
  const auto a = PlanOf({{1, 10}, {2, 20}, {3, 30}});
  const auto b = PlanOf({{1, 10}, {2, 20}, {4, 40}, {5, 50}});
  const auto c = PlanOf({{9, 60}, {1, 10}});
  const auto policy = PlannedPlacement::Create({a, b, c});
  blocks::Arena arena(1000, 1, *policy);
  const auto serve = [&](const PlacementPlan& plan) {
    std::vector<std::int64_t> offsets;
    for (const PlannedRequest& request : plan.requests()) {
      offsets.push_back(arena.Allocate(request.bytes, Hint::kResident));
      arena.Free(offsets.back());
    }
    EXPECT_EQ(policy->followed(), &plan);
    return offsets;
  };
  for (const auto& plan : {b, a, c, a, b, c, c}) EXPECT_EQ(serve(*plan), OffsetsOf(*plan));
  EXPECT_EQ(policy->counts().deviations, 0);
}

TEST(PlannedTest, NothingIsMissingOfAPlanThatAnotherGoesOnFrom) {
  const auto shorter = PlanOf({{1, 0}, {2, 1}});
  const auto longer = PlanOf({{1, 0}, {2, 1}, {3, 3}});
  for (const bool shorter_first : {true, false}) {
    const PlacementPlans plans =
        shorter_first ? PlacementPlans{shorter, longer} : PlacementPlans{longer, shorter};
    const auto policy = PlannedPlacement::Create(plans);
    for (const std::int64_t requests : {2, 3, 3, 2, 2}) {
      blocks::Arena arena(6, 1, *policy);
      policy->BeginIteration(plans);
      for (std::int64_t bytes = 1; bytes <= requests; ++bytes) {
        EXPECT_EQ(arena.Allocate(bytes, Hint::kResident), bytes * (bytes - 1) / 2);
      }
    }
    policy->BeginIteration(plans);
    EXPECT_EQ(policy->counts().planned, 12);
    EXPECT_EQ(policy->counts().deviations, 0);
  }
}

TEST(PlannedTest, WhatIsPlannedAnywhereIsNoDeviation) {
  const auto plan = PlanOf({{1, 10}, {2, PlannedRequest::kAnywhere}, {3, 0}});
  const auto policy = PlannedPlacement::Create({plan});
  blocks::Arena arena(20, 1, *policy);
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 10);
  EXPECT_GT(arena.Allocate(2, Hint::kResident), 10);
  EXPECT_EQ(arena.Allocate(3, Hint::kResident), 0);
  EXPECT_EQ(policy->counts().deviations, 0);
  EXPECT_EQ(policy->counts().planned, 3);
  EXPECT_EQ(plan->height_bytes(), 11);
}

TEST(PlannedTest, WhatLiesInTheWayIsADeviation) {
  const auto plan = PlanOf({{4, 0}, {2, 4}});
  const auto policy = PlannedPlacement::Create({plan});
  blocks::Arena arena(20, 1, *policy);
  EXPECT_EQ(arena.Allocate(4, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(2, Hint::kResident), 4);
  EXPECT_EQ(arena.Allocate(4, Hint::kResident), 16);  // the first of the next iteration
  EXPECT_TRUE(arena.Free(4));
  EXPECT_EQ(arena.Allocate(2, Hint::kResident), 4);
  EXPECT_EQ(policy->counts().planned, 3);
  EXPECT_EQ(policy->counts().deviations, 1);
}

TEST(PlannedTest, ARefusedRequestIsNoneOfTheIteration) {
  const auto plan = PlanOf({{4, 0}, {4, 4}});
  const auto policy = PlannedPlacement::Create({plan});
  blocks::Arena arena(7, 1, *policy);
  EXPECT_EQ(arena.Allocate(4, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(4, Hint::kResident), blocks::kNoOffset);
  EXPECT_FALSE(policy->IsAtEnd());
  EXPECT_EQ(policy->counts().planned, 1);
  EXPECT_EQ(policy->counts().deviations, 0);
}

TEST(PlannedTest, PlansWithoutRequestsAreNone) {
  const auto policy = PlannedPlacement::Create({PlanOf({})});
  blocks::Arena arena(7, 1, *policy);
  EXPECT_EQ(policy->followed(), nullptr);
  EXPECT_FALSE(policy->IsAtEnd());
  EXPECT_EQ(arena.Allocate(4, Hint::kResident), 0);
}

// The first requests stay, and later iterations begin after them in the plan.
TEST(PlannedTest, IterationsMayBeginBehindWhatStays) {
  constexpr std::size_t kWeights = 500;
  constexpr std::size_t kOthers = 20;
  std::vector<PlannedRequest> requests;
  for (std::size_t i = 0; i < kWeights + kOthers; ++i) {
    const auto bytes = static_cast<std::int64_t>(i % 7 + (i < kWeights ? 1 : 100));
    requests.push_back({bytes, i == 0 ? 0 : requests.back().offset + requests.back().bytes});
  }
  const std::int64_t height = requests.back().offset + requests.back().bytes;
  const auto policy = PlannedPlacement::Create({PlanOf(requests)});
  blocks::Arena arena(height, 1, *policy);
  for (std::size_t i = 0; i < kWeights; ++i) {
    ASSERT_EQ(arena.Allocate(requests[i].bytes, Hint::kResident), requests[i].offset);
  }
  for (int iteration = 0; iteration < 4; ++iteration) {
    for (std::size_t i = kWeights; i < requests.size(); ++i) {
      ASSERT_EQ(arena.Allocate(requests[i].bytes, Hint::kResident), requests[i].offset)
          << iteration << " " << i;
    }
    for (std::size_t i = kWeights; i < requests.size(); ++i) arena.Free(requests[i].offset);
  }
}

// A request has the size of the first one, which stays: the size before it tells them apart.
TEST(PlannedTest, ARequestAsLargeAsTheFirstIsNoNewBeginning) {
  const auto policy =
      PlannedPlacement::Create({PlanOf({{5, 0}, {7, 5}, {20, 12}, {5, 32}, {30, 37}})});
  blocks::Arena arena(67, 1, *policy);
  EXPECT_EQ(arena.Allocate(5, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(7, Hint::kResident), 5);
  for (int iteration = 0; iteration < 3; ++iteration) {
    EXPECT_EQ(arena.Allocate(20, Hint::kResident), 12) << iteration;
    EXPECT_EQ(arena.Allocate(5, Hint::kResident), 32) << iteration;
    EXPECT_EQ(arena.Allocate(30, Hint::kResident), 37) << iteration;
    for (const std::int64_t offset : {12, 32, 37}) arena.Free(offset);
  }
}

}  // namespace
}  // namespace tidepool
