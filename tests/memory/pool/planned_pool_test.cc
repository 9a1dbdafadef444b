// SPDX-License-Identifier: Apache-2.0
// Pools that plan: by a given plan, and by the iterations that they see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/rounds.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

// The iteration of a program. A buffer that is freed in the next iteration is carried over.
struct Program {
  struct Event {
    std::size_t request = 0;
    bool is_free = false;
  };
  std::vector<std::int64_t> bytes;
  std::vector<Event> events;
  std::vector<bool> is_carried;  // by request: its free comes before its allocation
};

std::int64_t DrawBytes(std::mt19937_64& random) {
  return 512 * static_cast<std::int64_t>(1 + random() % 100);
}

Program RandomProgram(std::mt19937_64& random, std::size_t requests, std::size_t carried = 0) {
  Program program;
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < requests; ++i) {
    while (!live.empty() && random() % 8 >= 3) {
      std::swap(live[random() % live.size()], live.back());
      program.events.push_back({live.back(), true});
      live.pop_back();
    }
    program.bytes.push_back(DrawBytes(random));
    program.is_carried.push_back(i < carried);
    if (i < carried) program.events.insert(program.events.begin(), {i, true});
    program.events.push_back({i, false});
    if (i >= carried) live.push_back(i);
  }
  for (const std::size_t last : live) program.events.push_back({last, true});
  return program;
}

class PlannedPoolTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  void Make(PoolOptions options) {
    options.memory = GetParam().memory;
    options.placement = "planned";
    options.plan_seconds = 0;
    if (options.max_bytes == 0) options.max_bytes = 128 * kMiB;
    pool_ = PoolFixture::NewPool(options);
    stream_ = NewStream();
  }

  void* Allocate(std::int64_t bytes) {
    const absl::StatusOr<void*> address = pool_->Allocate(static_cast<std::size_t>(bytes), stream_);
    EXPECT_TRUE(address.ok()) << address.status();
    return address.value_or(nullptr);
  }

  // Offsets by request.
  std::vector<std::int64_t> Run(const Program& program) {
    std::vector<void*>& live = live_[&program];
    live.resize(program.bytes.size());
    std::vector<std::int64_t> offsets(program.bytes.size());
    for (const auto& [request, is_free] : program.events) {
      if (is_free) {
        EXPECT_TRUE(pool_->Free(live[request], stream_).ok());
        live[request] = nullptr;
      } else {
        live[request] = Allocate(program.bytes[request]);
        offsets[request] = OffsetOf(*pool_, live[request]);
      }
    }
    EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
    return offsets;
  }
  std::vector<std::int64_t> RunMarked(const Program& program) {
    pool_->MarkIteration();
    std::vector<std::int64_t> offsets = Run(program);
    pool_->AwaitPlans();
    return offsets;
  }
  // Returns the deviations of this iteration.
  std::int64_t Deviations(const Program& program) {
    const PoolStats before = pool_->Stats();
    RunMarked(program);
    pool_->MarkIteration();
    const PoolStats after = pool_->Stats();
    const auto requests = static_cast<std::int64_t>(program.bytes.size());
    EXPECT_LE(after.planned - before.planned, requests);
    return after.deviations - before.deviations + requests - (after.planned - before.planned);
  }

  std::unique_ptr<Pool> pool_;
  Stream stream_;
  std::map<const Program*, std::vector<void*>> live_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, PlannedPoolTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(PlannedPoolTest, FollowsThePlanThatItIsGiven) {
  std::mt19937_64 random(1);
  const Program program = RandomProgram(random, 200);
  PlanProblem problem;
  for (const std::int64_t bytes : program.bytes) problem.buffers.push_back({.bytes = bytes});
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const auto [request, is_free] = program.events[i];
    PlanBuffer& buffer = problem.buffers[request];
    (is_free ? buffer.upper : buffer.lower) = static_cast<std::int64_t>(i);
  }
  const Plan plan = MakePlan(problem, {.time_limit_seconds = 0}).value();
  std::vector<PlannedRequest> requests;
  for (std::size_t i = 0; i < program.bytes.size(); ++i) {
    requests.push_back({program.bytes[i], plan.offsets[i]});
  }
  for (const bool is_tight : {true, false}) {
    Make({.max_bytes = is_tight ? plan.height : 128 * kMiB,
          .plan = std::make_shared<const PlacementPlan>(requests),
          .most_plans = 0});
    EXPECT_GE(pool_->Stats().reserved_bytes, plan.height);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(Run(program), plan.offsets);
    const PoolStats stats = pool_->Stats();
    EXPECT_EQ(stats.planned, 600);
    EXPECT_EQ(stats.deviations, 0);
    EXPECT_EQ(stats.plans, 0);
    EXPECT_EQ(stats.high_water_bytes, plan.height);
    EXPECT_EQ(stats.growths, 0);
  }
}

TEST_P(PlannedPoolTest, PlansMarkedIterationsAroundWhatStays) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    Make({});
    std::vector<void*> weights;
    for (int i = 0; i < 20; ++i) weights.push_back(Allocate(DrawBytes(random)));
    const Program program = RandomProgram(random, 100, round % 3);
    // The first iteration leaves a live block among the blocks that it frees.
    pool_->MarkIteration();
    for (const auto& [request, is_free] : program.events) {
      if (is_free && program.is_carried[request]) continue;
      std::vector<void*>& live = live_[&program];
      live.resize(program.bytes.size());
      if (is_free) {
        ASSERT_TRUE(pool_->Free(live[request], stream_).ok());
      } else {
        live[request] = Allocate(program.bytes[request]);
        if (request % 10 == 0) weights.push_back(Allocate(DrawBytes(random)));
      }
    }
    pool_->AwaitPlans();
    RunMarked(program);
    RunMarked(program);
    for (int again = 0; again < 4 && Deviations(program) > 0; ++again) {
    }
    const std::vector<std::int64_t> offsets = RunMarked(program);
    EXPECT_EQ(Deviations(program), 0);
    EXPECT_EQ(RunMarked(program), offsets);
    EXPECT_GE(pool_->Stats().plans, 1);
    for (void* weight : weights) ASSERT_TRUE(pool_->Free(weight, stream_).ok());
    for (void* carried : live_[&program]) ASSERT_TRUE(pool_->Free(carried, stream_).ok());
    live_.clear();
  }
}

// Memory that is left to the next iteration keeps its offsets only as long as it lives.
TEST_P(PlannedPoolTest, PlansAcrossTheBeginningOfIterations) {
  Make({.initial_bytes = 4 * kMiB, .max_bytes = 4 * kMiB});
  void* carried = Allocate(kMiB);
  std::int64_t height = 0;
  for (int iteration = 0; iteration < 6; ++iteration) {
    pool_->MarkIteration();
    void* const small = Allocate(512);
    ASSERT_TRUE(pool_->Free(carried, stream_).ok());
    void* const large = Allocate(2 * kMiB);
    height = std::max(OffsetOf(*pool_, small) + 512, OffsetOf(*pool_, large) + 2 * kMiB);
    ASSERT_TRUE(pool_->Free(large, stream_).ok());
    carried = Allocate(kMiB);
    height = std::max(height, OffsetOf(*pool_, carried) + kMiB);
    ASSERT_TRUE(pool_->Free(small, stream_).ok());
    pool_->AwaitPlans();
  }
  const PoolStats stats = pool_->Stats();
  EXPECT_EQ(stats.plans, 1);
  EXPECT_EQ(stats.deviations, 0);
  EXPECT_GT(stats.planned, 6);
  EXPECT_EQ(height, 2 * kMiB + 512);  // two of them share
  ASSERT_TRUE(pool_->Free(carried, stream_).ok());
}

// A training loop keeps the last step's output until the next step has made its own. One plan
// cannot place it: the two would lie at the same offset.
TEST_P(PlannedPoolTest, PlansInTurnWhatOutlivesItsNextRequest) {
  Make({.initial_bytes = 4 * kMiB, .max_bytes = 4 * kMiB});
  void* output = nullptr;
  std::int64_t height = 0;
  std::int64_t deviations = 0;
  for (int iteration = 0; iteration < 12; ++iteration) {
    if (iteration == 2) deviations = pool_->Stats().deviations;
    if (iteration == 2) height = 0;
    pool_->MarkIteration();
    void* const next = Allocate(kMiB);
    ASSERT_TRUE(pool_->Free(output, stream_).ok());
    output = next;
    void* const scratch = Allocate(2 * kMiB);
    height =
        std::max({height, OffsetOf(*pool_, output) + kMiB, OffsetOf(*pool_, scratch) + 2 * kMiB});
    ASSERT_TRUE(pool_->Free(scratch, stream_).ok());
    pool_->AwaitPlans();
  }
  EXPECT_EQ(pool_->Stats().deviations, deviations);
  EXPECT_EQ(height, 3 * kMiB);
  ASSERT_TRUE(pool_->Free(output, stream_).ok());
}

// From the third marked iteration on each gets a plan, whichever memory the one before it left, and
// wherever that lies.
TEST_P(PlannedPoolTest, ServesTheThirdMarkedIteration) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    Make({});
    const Program program = RandomProgram(random, 100, static_cast<std::size_t>(round % 4));
    std::vector<void*> states;
    pool_->MarkIteration();
    for (const auto& [request, is_free] : program.events) {
      if (is_free && program.is_carried[request]) continue;
      std::vector<void*>& live = live_[&program];
      live.resize(program.bytes.size());
      if (is_free) {
        ASSERT_TRUE(pool_->Free(live[request], stream_).ok());
      } else {
        live[request] = Allocate(program.bytes[request]);
        if (request % 10 == 0) states.push_back(Allocate(DrawBytes(random)));
      }
    }
    RunMarked(program);
    for (int again = 0; again < 5; ++again) {
      const PoolStats before = pool_->Stats();
      RunMarked(program);
      EXPECT_EQ(pool_->Stats().planned - before.planned, 100) << again;
      EXPECT_EQ(pool_->Stats().deviations, 0);
    }
    for (void* state : states) ASSERT_TRUE(pool_->Free(state, stream_).ok());
    for (void* carried : live_[&program]) ASSERT_TRUE(pool_->Free(carried, stream_).ok());
    live_.clear();
  }
}

// A plan for the next iteration costs time, and its iteration may never come.
TEST_P(PlannedPoolTest, SoonStopsToPlanTheNextOfIterationsThatDiffer) {
  Make({});
  std::mt19937_64 random(12);
  std::vector<void*> left;
  const auto run = [&](int iterations) {
    for (int i = 0; i < iterations; ++i) {
      pool_->MarkIteration();
      std::vector<void*> live(10);
      for (void*& address : live) address = Allocate(DrawBytes(random));
      for (void* address : std::exchange(left, live)) {
        ASSERT_TRUE(pool_->Free(address, stream_).ok());
      }
    }
  };
  run(10);
  const PoolStats before = pool_->Stats();
  EXPECT_GT(before.deviations, 0);
  run(10);
  const PoolStats after = pool_->Stats();
  EXPECT_EQ(after.planned, before.planned);
  EXPECT_EQ(after.deviations, before.deviations);
  for (void* address : left) ASSERT_TRUE(pool_->Free(address, stream_).ok());
}

// Allocations that may wait begin iterations, too.
TEST_P(PlannedPoolTest, FindsIterationsOfAllocationsThatMayWait) {
  Make({});
  std::mt19937_64 random(9);
  const Program program = RandomProgram(random, 50);
  std::vector<void*> live(program.bytes.size());
  const auto run = [&] {
    for (const auto& [request, is_free] : program.events) {
      if (is_free) {
        ASSERT_TRUE(pool_->Free(live[request], stream_).ok());
      } else {
        live[request] = pool_->AllocateBlocking(program.bytes[request], stream_).value();
      }
    }
    pool_->AwaitPlans();
  };
  for (int again = 0; again < 6; ++again) run();
  const PoolStats before = pool_->Stats();
  EXPECT_GE(before.plans, 1);
  run();
  EXPECT_EQ(pool_->Stats().planned - before.planned, 50);
}

TEST_P(PlannedPoolTest, FindsIterationsByItself) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 10; ++round) {
    Make({});
    void* const weights = Allocate(kMiB);
    for (int i = 0; i < 30; ++i)
      ASSERT_TRUE(pool_->Free(Allocate(DrawBytes(random)), stream_).ok());
    const Program program = RandomProgram(random, 1 + random() % 100);
    const int times = 3 + static_cast<int>(100 / program.bytes.size());
    for (int again = 0; again < times; ++again) {
      Run(program);
      pool_->AwaitPlans();
    }
    Run(program);
    const PoolStats before = pool_->Stats();
    EXPECT_GE(before.plans, 1);
    const std::vector<std::int64_t> offsets = Run(program);
    EXPECT_EQ(Run(program), offsets);
    const PoolStats after = pool_->Stats();
    EXPECT_EQ(after.deviations, before.deviations);
    EXPECT_EQ(after.planned - before.planned, 2 * static_cast<std::int64_t>(program.bytes.size()));
    // Another program: the old plan does no harm, and there will be a new one.
    const Program other = RandomProgram(random, 300);
    for (int again = 0; again < 9; ++again) {
      Run(other);
      pool_->AwaitPlans();
    }
    const PoolStats last = pool_->Stats();
    EXPECT_GT(last.plans, after.plans);
    Run(other);
    EXPECT_EQ(pool_->Stats().planned - last.planned, 300);
    ASSERT_TRUE(pool_->Free(weights, stream_).ok());
    live_.clear();
  }
}

// An iteration that was found just before the first mark tells nothing about marked iterations.
TEST_P(PlannedPoolTest, MarksTakeThePlaceOfWhatWasFound) {
  std::mt19937_64 random(14);
  Make({});
  const Program found = RandomProgram(random, 100);
  Run(found);
  Run(found);  // the next request begins an iteration
  const Program marked = RandomProgram(random, 80);
  for (int again = 0; again < 3; ++again) RunMarked(marked);
  EXPECT_EQ(Deviations(marked), 0);
}

// The second of two programs goes on after the first ends.
TEST_P(PlannedPoolTest, TellsAProgramFromItsBeginning) {
  std::mt19937_64 random(15);
  for (int round = 0; round < 10; ++round) {
    Make({});
    const Program beginning = RandomProgram(random, 50);
    const Program rest = RandomProgram(random, 50);
    Program whole = beginning;
    // The second program keeps some of the buffers that the first frees.
    const auto is_kept = [&](const Program::Event& event) {
      return round % 2 == 1 && event.is_free && event.request % 2 == 1;
    };
    std::erase_if(whole.events, is_kept);
    for (const auto& [request, is_free] : rest.events) {
      whole.events.push_back({request + beginning.bytes.size(), is_free});
    }
    std::ranges::copy_if(beginning.events, std::back_inserter(whole.events), is_kept);
    whole.bytes.insert(whole.bytes.end(), rest.bytes.begin(), rest.bytes.end());
    whole.is_carried.resize(whole.bytes.size());
    for (int again = 0; again < 6; ++again) {
      RunMarked(beginning);
      RunMarked(whole);
    }
    const PoolStats before = pool_->Stats();
    EXPECT_EQ(Deviations(beginning), 0);
    EXPECT_EQ(Deviations(whole), 0);
    EXPECT_EQ(pool_->Stats().plans, before.plans);
    live_.clear();
  }
}

// With few sizes, all requests are like a part of any plan.
TEST_P(PlannedPoolTest, LeavesPlansThatTheProgramDoesNotFollow) {
  std::mt19937_64 random(16);
  const auto few_sizes = [&] {
    Program program = RandomProgram(random, 20 + random() % 100);
    for (std::int64_t& bytes : program.bytes)
      bytes = 512 * static_cast<std::int64_t>(1 + random() % 4);
    return program;
  };
  for (int round = 0; round < 20; ++round) {
    Make({.most_plans = 3});
    const Program first = few_sizes();
    const Program second = few_sizes();
    for (int again = 0; again < 6; ++again) {
      Run(first);
      pool_->AwaitPlans();
    }
    for (int again = 0; again < 60; ++again) {
      Run(second);
      pool_->AwaitPlans();
    }
    const PoolStats before = pool_->Stats();
    for (int again = 0; again < 4; ++again) Run(second);
    const PoolStats after = pool_->Stats();
    const auto requests = 4 * static_cast<std::int64_t>(second.bytes.size());
    EXPECT_LE(8 * (after.deviations - before.deviations), requests) << round;
    EXPECT_GE(8 * (after.planned - before.planned), 7 * requests) << round;
    live_.clear();
  }
}

TEST_P(PlannedPoolTest, KeepsAPlanForEachKindOfIteration) {
  std::mt19937_64 random(4);
  Make({.most_plans = 5});
  std::vector<Program> programs;
  for (int i = 0; i < 5; ++i) programs.push_back(RandomProgram(random, 50 + i));
  for (const Program& program : programs) {
    RunMarked(program);
    RunMarked(program);
  }
  pool_->MarkIteration();
  EXPECT_EQ(pool_->Stats().plans, 5);
  for (int again = 0; again < 50; ++again) {
    EXPECT_EQ(Deviations(programs[random() % programs.size()]), 0);
  }
  EXPECT_EQ(pool_->Stats().plans, 5);
}

TEST_P(PlannedPoolTest, DropsThePlanThatWasNotUsedForLongest) {
  std::mt19937_64 random(5);
  Make({.most_plans = 2});
  std::vector<Program> programs;
  for (int i = 0; i < 3; ++i) programs.push_back(RandomProgram(random, 30));
  const auto plan = [&](const Program& program) {
    RunMarked(program);
    return Deviations(program);
  };
  plan(programs[0]);
  plan(programs[1]);
  EXPECT_EQ(plan(programs[0]), 0);
  plan(programs[2]);  // in place of the second
  EXPECT_EQ(plan(programs[0]), 0);
  EXPECT_EQ(plan(programs[2]), 0);
  EXPECT_EQ(pool_->Stats().plans, 3);
  plan(programs[1]);
  EXPECT_EQ(pool_->Stats().plans, 4);
}

TEST_P(PlannedPoolTest, PlansAnewWhenIterationsChangeForGood) {
  std::mt19937_64 random(6);
  Make({});
  Program program = RandomProgram(random, 100);
  RunMarked(program);
  RunMarked(program);
  EXPECT_EQ(Deviations(program), 0);
  program.bytes[50] += 512;
  RunMarked(program);
  EXPECT_EQ(pool_->Stats().deviations, 1);
  RunMarked(program);
  EXPECT_EQ(Deviations(program), 0);
  EXPECT_EQ(pool_->Stats().plans, 2);
}

// Something that stays where the plan wants memory.
TEST_P(PlannedPoolTest, PlansAnewAroundWhatIsInTheWay) {
  std::mt19937_64 random(7);
  Make({});
  const Program program = RandomProgram(random, 100);
  RunMarked(program);
  RunMarked(program);
  ASSERT_EQ(Deviations(program), 0);
  // It takes the highest free memory, between iterations.
  std::vector<void*> taken;
  for (int i = 0; i < 50; ++i) taken.push_back(Allocate(64 * kKiB));
  for (int again = 0; again < 8; ++again) RunMarked(program);
  EXPECT_EQ(Deviations(program), 0);
  for (void* address : taken) ASSERT_TRUE(pool_->Free(address, stream_).ok());
}

// One failure may be an accident.
TEST_P(PlannedPoolTest, PlansAgainAfterTwoFailures) {
  std::mt19937_64 random(7);
  Make({});
  const Program program = RandomProgram(random, 100);
  RunMarked(program);
  RunMarked(program);
  ASSERT_EQ(Deviations(program), 0);
  std::vector<void*> taken;
  for (int i = 0; i < 50; ++i) taken.push_back(Allocate(64 * kKiB));
  const std::int64_t plans = pool_->Stats().plans;
  int iterations = 0;
  for (; pool_->Stats().plans == plans; ++iterations) {
    ASSERT_LT(iterations, 20);
    RunMarked(program);
  }
  // The mark after the second failure orders the plan, and the next mark takes it.
  EXPECT_EQ(iterations, 4);
  for (void* address : taken) ASSERT_TRUE(pool_->Free(address, stream_).ok());
}

TEST_P(PlannedPoolTest, DoesNotPlanForeverWhatNeverComesAgain) {
  std::mt19937_64 random(8);
  Make({.most_plans = 4});
  for (int i = 0; i < 50; ++i) RunMarked(RandomProgram(random, 20));
  EXPECT_EQ(pool_->Stats().plans, 4);
  live_.clear();
}

TEST_P(PlannedPoolTest, MakesNoPlansWhenItMayKeepNone) {
  std::mt19937_64 random(9);
  Make({.most_plans = 0});
  const Program program = RandomProgram(random, 50);
  for (int i = 0; i < 5; ++i) RunMarked(program);
  EXPECT_EQ(pool_->Stats().plans, 0);
  EXPECT_EQ(pool_->Stats().planned + pool_->Stats().deviations, 0);
}

TEST_P(PlannedPoolTest, TakesBackWhatWasTrimmed) {
  std::mt19937_64 random(10);
  Make({});
  const Program program = RandomProgram(random, 100);
  for (int i = 0; i < 3; ++i) RunMarked(program);
  ASSERT_EQ(Deviations(program), 0);
  ASSERT_TRUE(pool_->Trim().ok());
  ASSERT_EQ(pool_->Stats().reserved_bytes, 0);
  for (int i = 0; i < 6; ++i) RunMarked(program);
  EXPECT_EQ(Deviations(program), 0);
}

// Segments do not move apart.
class PlannedVirtualPoolTest : public PlannedPoolTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, PlannedVirtualPoolTest, ::testing::Values(kVirtualPool),
                         [](const auto& test) { return test.param.name; });

// Buffers that stay were allocated while the first iteration ran, so they lie all over the memory.
// Later iterations get addresses of their own, and the memory between those buffers goes back.
TEST_P(PlannedVirtualPoolTest, HoldsThePlanAndWhatStays) {
  Make({.growth = 0});
  std::vector<void*> states;
  void* output = nullptr;
  const auto run = [&](bool is_first) {
    pool_->MarkIteration();
    std::vector<void*> live;
    for (int i = 0; i < 32; ++i) {
      live.push_back(Allocate(kMiB));
      if (is_first) states.push_back(Allocate(64 * kKiB));
    }
    for (void* const buffer : live) ASSERT_TRUE(pool_->Free(buffer, stream_).ok());
    void* const large = Allocate(30 * kMiB);
    ASSERT_TRUE(pool_->Free(output, stream_).ok());
    output = Allocate(512 * kKiB);
    ASSERT_TRUE(pool_->Free(large, stream_).ok());
    pool_->AwaitPlans();
    ASSERT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
  };
  run(true);
  EXPECT_GT(pool_->Stats().peak_reserved_bytes, 62 * kMiB);
  for (int again = 0; again < 12; ++again) run(false);
  PoolStats stats = pool_->Stats();
  const std::int64_t most = stats.peak_live_bytes + stats.peak_live_bytes / 32;
  EXPECT_LE(stats.reserved_bytes, most);
  // The memory that is held is kept: no iteration takes or gives back any.
  pool_->ResetPeaks();
  for (int again = 0; again < 4; ++again) run(false);
  EXPECT_EQ(pool_->Stats().growths, stats.growths);
  EXPECT_LE(pool_->Stats().peak_reserved_bytes, most);
  EXPECT_EQ(pool_->Stats().deviations, stats.deviations);
  // The plan lies beyond the end of the memory when the buffers that stayed are gone.
  for (void* const state : states) ASSERT_TRUE(pool_->Free(state, stream_).ok());
  ASSERT_TRUE(pool_->Free(std::exchange(output, nullptr), stream_).ok());
  ASSERT_TRUE(pool_->Trim().ok());
  for (int again = 0; again < 4; ++again) run(false);
  ASSERT_TRUE(pool_->Free(output, stream_).ok());
}

// Iterations that are not as planned may leave a pool that holds much more than was ever live.
TEST_P(PlannedPoolTest, GivesBackAtAMarkWhatFragmentsTook) {
  Make({.growth = 0});
  const auto run = [&] {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(pool_->Free(Allocate(kMiB), stream_).ok());
    pool_->AwaitPlans();
  };
  for (int again = 0; again < 10; ++again) {
    pool_->MarkIteration();
    run();
  }
  ASSERT_LE(pool_->Stats().reserved_bytes, 4 * kMiB);
  // Each size leaves holes that are too small for the next one.
  std::vector<void*> live;
  for (std::int64_t bytes = 64 * kKiB; bytes <= 8 * kMiB; bytes *= 2) {
    std::vector<void*> added;
    for (std::int64_t i = 0; i < 8 * kMiB / bytes; ++i) added.push_back(Allocate(bytes));
    for (std::size_t i = 0; i < added.size(); ++i) {
      if (i % 2 == 0) {
        ASSERT_TRUE(pool_->Free(added[i], stream_).ok());
      } else {
        live.push_back(added[i]);
      }
    }
    while (static_cast<std::int64_t>(live.size()) > 4 * kMiB / bytes) {
      std::swap(live[live.size() / 2], live.back());
      ASSERT_TRUE(pool_->Free(live.back(), stream_).ok());
      live.pop_back();
    }
  }
  void* const kept = Allocate(64 * kKiB);  // so the iteration gets no plan for later ones
  for (void* const buffer : live) ASSERT_TRUE(pool_->Free(buffer, stream_).ok());
  const std::int64_t most_live = pool_->Stats().peak_live_bytes;
  ASSERT_GT(pool_->Stats().reserved_bytes, most_live + 2 * kMiB);
  pool_->MarkIteration();  // the next iteration has a plan as if it repeated this one
  EXPECT_GT(pool_->Stats().reserved_bytes, most_live + 2 * kMiB);
  run();
  pool_->MarkIteration();
  EXPECT_LE(pool_->Stats().reserved_bytes, 4 * kMiB);
  ASSERT_TRUE(pool_->Free(kept, stream_).ok());
  EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
}

TEST_P(PlannedPoolTest, KeepsItsInitialMemory) {
  Make({.initial_bytes = 16 * kMiB});
  for (int again = 0; again < 10; ++again) {
    pool_->MarkIteration();
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(pool_->Free(Allocate(kMiB), stream_).ok());
    pool_->AwaitPlans();
    EXPECT_EQ(pool_->Stats().reserved_bytes, 16 * kMiB);
  }
  EXPECT_GT(pool_->Stats().planned, 0);
}

TEST_P(PlannedPoolTest, KeepsItsBudgetWhenWhatWasTrimmedWasNotReleased) {
  Make({.max_bytes = 64 * kKiB});
  const Program program = {
      .bytes = {512}, .events = {{0, false}, {0, true}}, .is_carried = {false}};
  for (int i = 0; i < 3; ++i) RunMarked(program);
  device_->FailCall(HostDevice::Call::kReleasePhysical, 1);
  pool_->Trim().IgnoreError();
  device_->FailCall(HostDevice::Call::kReleasePhysical, 0);
  pool_->MarkIteration();
  EXPECT_LE(pool_->Stats().peak_reserved_bytes, 64 * kKiB);
  EXPECT_EQ(Deviations(program), 0);
}

// A device that fails at any call leaves a pool that goes on without its plan.
TEST_P(PlannedPoolTest, SurvivesADeviceThatFails) {
  std::mt19937_64 random(11);
  const Program program = RandomProgram(random, 60);
  for (std::int64_t call = 1; call < 40; ++call) {
    Make({});
    for (int i = 0; i < 3; ++i) RunMarked(program);
    ASSERT_TRUE(pool_->Trim().ok());
    device_->FailCall(HostDevice::Call::kAny, call);
    std::vector<void*> live(program.bytes.size());
    pool_->MarkIteration();
    for (const auto& [request, is_free] : program.events) {
      if (is_free) {
        EXPECT_TRUE(pool_->Free(live[request], stream_).ok());
      } else {
        live[request] = pool_->Allocate(static_cast<std::size_t>(program.bytes[request]), stream_)
                            .value_or(nullptr);
      }
      ASSERT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
    }
    device_->FailCall(HostDevice::Call::kAny, 0);
    for (int i = 0; i < 6; ++i) RunMarked(program);
    EXPECT_EQ(Deviations(program), 0) << call;
    pool_ = nullptr;
    ASSERT_EQ(device_->used_bytes(), 0);
  }
}

// Iterations on three streams, each buffer written on its own and checked before its free, with
// requests that deviate: no stream sees bytes of another one.
TEST_P(PlannedPoolTest, KeepsTheOrderOfStreams) {
  std::mt19937_64 random(12);
  for (int round = 0; round < testing::Rounds(10); ++round) {
    Make({.max_bytes = 16 * kMiB});
    const std::vector<Stream> streams = {NewStream(), NewStream(), NewStream()};
    const Program program = RandomProgram(random, 60);
    struct Live {
      void* address = nullptr;
      std::size_t stream = 0;
      unsigned char value = 0;
      std::size_t bytes = 0;
    };
    std::vector<Live> live(program.bytes.size());
    std::vector<std::vector<unsigned char>> read;
    std::vector<unsigned char> expected;
    for (int iteration = 0; iteration < 12; ++iteration) {
      if (round % 2 == 0) pool_->MarkIteration();
      for (const auto& [request, is_free] : program.events) {
        Live& buffer = live[request];
        if (is_free) {
          read.emplace_back(buffer.bytes);
          expected.push_back(buffer.value);
          ASSERT_TRUE(device_
                          ->Copy(read.back().data(), buffer.address, buffer.bytes,
                                 CopyDirection::kFromDevice, streams[buffer.stream])
                          .ok());
          ASSERT_TRUE(pool_->Free(buffer.address, streams[buffer.stream]).ok());
          continue;
        }
        const bool deviates = random() % 100 == 0;
        buffer.bytes = static_cast<std::size_t>(program.bytes[request]) + (deviates ? 4096 : 0);
        buffer.stream = deviates ? random() % 3 : request % 3;
        buffer.value = static_cast<unsigned char>(random());
        buffer.address = *pool_->Allocate(buffer.bytes, streams[buffer.stream]);
        ASSERT_TRUE(
            device_->Fill(buffer.address, buffer.value, buffer.bytes, streams[buffer.stream]).ok());
      }
      pool_->AwaitPlans();
    }
    for (const Stream stream : streams) ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    for (std::size_t i = 0; i < read.size(); ++i) {
      const auto intact = std::ranges::count(read[i], expected[i]);
      ASSERT_EQ(static_cast<std::size_t>(intact), read[i].size()) << i;
    }
    if (round % 2 == 0) {
      EXPECT_GT(pool_->Stats().planned, 0);
    }
  }
}

TEST_P(PlannedPoolTest, ServesSeveralThreads) {
  Make({});
  const auto work = [this](std::uint64_t seed) {
    const Stream stream = NewStream();
    std::mt19937_64 random(seed);
    const Program program = RandomProgram(random, 40);
    std::vector<void*> live(program.bytes.size());
    for (int i = 0; i < 30; ++i) {
      if (seed == 1) pool_->MarkIteration();
      for (const auto& [request, is_free] : program.events) {
        if (is_free) {
          EXPECT_TRUE(pool_->Free(live[request], stream).ok());
        } else {
          live[request] =
              *pool_->Allocate(static_cast<std::size_t>(program.bytes[request]), stream);
        }
      }
    }
  };
  std::thread first(work, 1);
  std::thread second(work, 2);
  first.join();
  second.join();
  EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
}

TEST_P(PlannedPoolTest, IsDestroyedWhileItPlans) {
  std::mt19937_64 random(13);
  Make({});
  const Program program = RandomProgram(random, 20'000);
  pool_->MarkIteration();
  Run(program);
  pool_->MarkIteration();
  pool_ = nullptr;
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_P(PlannedPoolTest, RefusesPlansThatAreNone) {
  const auto create = [&](PoolOptions options, std::vector<PlannedRequest> requests) {
    options.memory = GetParam().memory;
    options.max_bytes = kMiB;
    options.plan = std::make_shared<const PlacementPlan>(std::move(requests));
    const auto pool = Pool::Create(device_.get(), options);
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument) << pool.status();
    EXPECT_THAT(std::string(pool.status().message()), HasSubstr("expected"));
    return std::string(pool.status().message());
  };
  const PoolOptions planned = {.placement = "planned"};
  EXPECT_THAT(create({}, {{512, 0}}), HasSubstr("a plan with placement best-fit"));
  EXPECT_THAT(create(planned, {{512, 0}, {512, 100}}), HasSubstr("request 1"));
  EXPECT_THAT(create(planned, {{100, 0}}), HasSubstr("request 0"));
  EXPECT_THAT(create(planned, {{0, 0}}), HasSubstr("request 0"));
  EXPECT_THAT(create(planned, {{-512, 0}}), HasSubstr("request 0"));
  EXPECT_THAT(create(planned, {{512, -512}}), HasSubstr("request 0"));
  EXPECT_THAT(create(planned, {{512, kMiB}}), HasSubstr("a plan of 1.0 MiB (1049088 bytes)"));
  EXPECT_THAT(create(planned, {{512, INT64_MAX & -512}}),
              HasSubstr("a plan of 8388608.0 TiB (92233720368"));
  EXPECT_THAT(create({.placement = "planned", .most_plans = -1}, {}), HasSubstr("most_plans"));
  EXPECT_THAT(create({.placement = "planned", .plan_seconds = -1}, {}), HasSubstr("plan_seconds"));
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST(PlannedRemapTest, IsRefused) {
  const auto device = HostDevice::Create({}).value();
  const auto pool = Pool::Create(device.get(), {.placement = "planned", .remap = true});
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pool.status().message()), HasSubstr("expected another"));
}

}  // namespace
}  // namespace tidepool
