// SPDX-License-Identifier: Apache-2.0
// Activations that leave and return in parts: the policy `best` against an exhaustive search, and
// the checker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/policies/training/chain/slow_parts.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using enum ChainAction;
using ::testing::HasSubstr;
using testing::RandomChains;
using testing::SlowParts;

// Searches end by themselves, so the result does not depend on the machine.
ChainPolicyOptions InParts(std::int64_t part_bytes) {
  return {.time_limit_seconds = 1000, .copies = {.part_bytes = part_bytes}};
}

ChainSchedule BestWith(const Chain& chain, const ChainPolicyOptions& options) {
  absl::StatusOr<ChainSchedule> made = MakeChainSchedule("best", chain, options);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
  EXPECT_EQ(made->copies, options.copies);
  return *std::move(made);
}

// F_1 needs half of the memory of x_0 at once: one half leaves while F_0 runs.
Chain TwoHalves() {
  return {.forward_seconds = {1, 1, 1},
          .backward_seconds = {1, 1, 1},
          .forward_extra = {0, 8, 0},
          .backward_extra = {0, 0, 0},
          .x = {16, 0, 0, 0},
          .y = {0, 0, 0, 0},
          .link_bytes_per_second = 8,
          .memory_bytes = 16};
}

ChainSchedule HalfLeaves() {
  return {.steps = {{kForward, 0, 0},
                    {kOffload, 0, 0, 0, 8},
                    {kForward, 1, 1},
                    {kForward, 2, 2},
                    {kPrefetch, 0, 2, 0, 8},
                    {kBackward, 2, 3},
                    {kBackward, 1, 4},
                    {kBackward, 0, 5}},
          .copies = {.part_bytes = 8},
          .seconds = 6};
}

TEST(ChainParts, LeaveAsTheyAreSent) {
  const Chain chain = TwoHalves();
  EXPECT_EQ(CheckChainSchedule(chain, HalfLeaves()), absl::OkStatus());
  const ChainSchedule made = BestWith(chain, InParts(8));
  EXPECT_EQ(made.seconds, 6);
  EXPECT_TRUE(made.proved);
  // The whole of x_0 takes two seconds to leave.
  EXPECT_EQ(BestWith(chain, InParts(0)).seconds, 7);
  EXPECT_EQ(BestWith(chain, InParts(16)).seconds, 7);
}

TEST(ChainParts, HaveTheTimesOfAnExhaustiveSearch) {
  RandomChains random(51);
  int faster = 0;
  int compared = 0;
  for (int i = 0; i < testing::Rounds(60); ++i) {
    Chain chain = random.WholeSeconds(static_cast<std::size_t>(random.Below(4)) + 1);
    if (random.Chance(0.5)) chain.memory_bytes = LeastChainMemory(chain);
    ChainPolicyOptions options = InParts(random.Chance(0.7) ? 4 : 8);
    options.copies.full_duplex = random.Chance(0.3);
    const SlowParts slow(chain, options.copies.part_bytes, options.copies.full_duplex);
    if (slow.parts() > 6) continue;
    SCOPED_TRACE(ChainJson(chain));
    const ChainSchedule made = BestWith(chain, options);
    EXPECT_EQ(made.seconds, slow.Best());
    EXPECT_TRUE(made.proved);
    EXPECT_GE(made.lower_bound_seconds, ChainOperationBound(chain) * (1 - 1e-9));
    ++compared;
    options.copies.part_bytes = 0;
    faster += made.seconds < BestWith(chain, options).seconds ? 1 : 0;
  }
  EXPECT_GT(compared, testing::Rounds(60) / 2);
  EXPECT_GT(faster, testing::Rounds(60) / 20);
}

TEST(ChainParts, AreNeverSlower) {
  RandomChains random(52);
  int faster = 0;
  const int rounds = testing::Rounds(15);
  for (int i = 0; i < rounds; ++i) {
    Chain chain = random.Next(7);
    chain.memory_bytes = LeastChainMemory(chain);
    SCOPED_TRACE(ChainJson(chain));
    ChainPolicyOptions options = InParts(0);
    options.copies.full_duplex = random.Chance(0.5);
    options.copies.latency_seconds = random.Chance(0.3) ? 0.125 : 0;
    if (random.Chance(0.3)) options.copies.compressor = {4096, 2048};
    if (options.copies.compressor.exists()) options.copies.density = 0.25;
    const ChainSchedule whole = BestWith(chain, options);
    options.copies.part_bytes = 256;
    const ChainSchedule made = BestWith(chain, options);
    EXPECT_LE(made.seconds, whole.seconds);
    EXPECT_LE(made.lower_bound_seconds, whole.lower_bound_seconds * (1 + 1e-12));
    faster += made.seconds < whole.seconds * (1 - 1e-9) ? 1 : 0;
  }
  EXPECT_GT(faster, rounds / 8);
}

// Parts of a byte are too many for a long chain: they become larger.
TEST(ChainParts, AreFewerInLongChains) {
  Chain chain = RandomChains(53).Next(300);
  chain.memory_bytes = LeastChainMemory(chain);
  chain.link_bytes_per_second = 100;
  ChainPolicyOptions options = InParts(1);
  options.time_limit_seconds = 1e-3;  // the first set of parts is enough
  const ChainSchedule made = BestWith(chain, options);
  EXPECT_GE(made.lower_bound_seconds, ChainOperationBound(chain) * (1 - 1e-9));
  std::vector<std::size_t> parts(chain.x.size());
  for (const ChainStep& step : made.steps) parts[step.index] += step.end >= 0 ? 1 : 0;
  EXPECT_GT(*std::max_element(parts.begin(), parts.end()), 10);
  EXPECT_LE(*std::max_element(parts.begin(), parts.end()), 2 * (1 << 14) / 300);
}

TEST(ChainParts, AreNotForOtherPoliciesAndGraphs) {
  const Chain chain = TwoHalves();
  const absl::Status status = MakeChainSchedule("greedy", chain, InParts(8)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("whole activations"));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeChainSchedule("best", chain, InParts(-1)).status()));
  const TaskGraph graph = FromChain(chain).value();
  const GraphChain made = ToChain(graph, {.memory_bytes = 32}).value();
  EXPECT_THAT(std::string(ScheduleChain(graph, made, HalfLeaves()).status().message()),
              HasSubstr("a copy of a part of x_0, expected whole ones"));
}

TEST(ChainParts, HaveTheirOwnMemoryAndTime) {
  const Chain chain = TwoHalves();
  const auto fault = [&](const ChainSchedule& schedule) {
    return std::string(CheckChainSchedule(chain, schedule).message());
  };
  ChainSchedule schedule = HalfLeaves();
  schedule.steps[1].end = 4;
  EXPECT_THAT(fault(schedule), HasSubstr("20 bytes are in use, and the memory has 16"));
  schedule.steps[1].end = 16;
  EXPECT_THAT(fault(schedule), HasSubstr("24 bytes are in use"));
  schedule.steps[1].end = 17;
  EXPECT_THAT(fault(schedule), HasSubstr("bytes 0 to 17 of x_0, which has 16"));
  schedule = HalfLeaves();
  schedule.steps[0].end = 8;
  EXPECT_THAT(fault(schedule), HasSubstr("only copies have parts"));
  schedule = HalfLeaves();
  schedule.steps[4].begin = 4;
  schedule.steps[4].end = 12;
  EXPECT_THAT(fault(schedule), HasSubstr("x_0 is not on the host"));
  schedule = HalfLeaves();
  schedule.steps.erase(schedule.steps.begin() + 4);
  EXPECT_THAT(fault(schedule), HasSubstr("B_0 at 5 s: a part of x_0 is not on the device"));
  // The other half may leave too, after the first has.
  schedule = HalfLeaves();
  schedule.steps.insert(schedule.steps.begin() + 3, {kOffload, 0, 1, 8, 16});
  schedule.steps.insert(schedule.steps.begin() + 6, {kPrefetch, 0, 3, 8, 16});
  EXPECT_EQ(fault(schedule), "");
  schedule.steps[3].start_seconds = 0.5;
  std::swap(schedule.steps[2], schedule.steps[3]);
  EXPECT_THAT(fault(schedule), HasSubstr("another transfer has not ended"));
}

}  // namespace
}  // namespace tidepool
