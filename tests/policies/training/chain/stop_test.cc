// SPDX-License-Identifier: Apache-2.0
// Searches that are stopped: their schedules are valid and marked. The stops come before the
// searches, so that the tests depend on no clock.
#include <gtest/gtest.h>

#include <map>
#include <stop_token>
#include <string>

#include "tests/support/rounds.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::RandomChains;

ChainPolicyOptions Stopped() {
  std::stop_source source;
  source.request_stop();
  return {.time_limit_seconds = 1000, .recomputes = true, .stop = source.get_token()};
}

TEST(StoppedSearch, GivesTheBestScheduleSoFar) {
  RandomChains random(41);
  std::map<std::string, int> worse;
  for (int i = 0; i < testing::Rounds(60); ++i) {
    const Chain chain = random.Next(12);
    for (const std::string& policy : ChainPolicyNames()) {
      SCOPED_TRACE(policy + " " + ChainJson(chain));
      const auto stopped = MakeChainSchedule(policy, chain, Stopped());
      if (absl::IsCancelled(stopped.status())) continue;
      ASSERT_TRUE(stopped.ok()) << stopped.status();
      EXPECT_EQ(CheckChainSchedule(chain, *stopped), absl::OkStatus());
      EXPECT_EQ(stopped->stopped, !stopped->proved);
      EXPECT_FALSE(stopped->timed_out);
      const auto whole =
          MakeChainSchedule(policy, chain, {.time_limit_seconds = 1000, .recomputes = true});
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_FALSE(whole->stopped);
      // dynprog looks for the least time of transfers that may be interrupted.
      if (policy != "dynprog") {
        EXPECT_LE(whole->seconds, stopped->seconds * (1 + 1e-12));
      }
      EXPECT_LE(stopped->lower_bound_seconds, whole->seconds * (1 + 1e-12));
      worse[policy] += stopped->seconds > whole->seconds * (1 + 1e-9) ? 1 : 0;
    }
  }
  for (const char* policy : {"best", "autoswap", "vdnn-ratio", "recompute", "pofo"}) {
    EXPECT_GT(worse[policy], 0) << policy;
  }
}

// A limit that ends at once leaves the schedules that need no search.
TEST(TimeLimit, GivesTheBestScheduleSoFar) {
  RandomChains random(44);
  int worse = 0;
  const ChainPolicyOptions short_time = {.time_limit_seconds = 1e-9, .recomputes = true};
  const ChainPolicyOptions long_time = {.time_limit_seconds = 1000, .recomputes = true};
  for (int i = 0; i < testing::Rounds(20); ++i) {
    const Chain chain = random.Next(12);
    for (const char* policy : {"best", "recompute", "pofo"}) {
      SCOPED_TRACE(std::string(policy) + " " + ChainJson(chain));
      const auto ended = MakeChainSchedule(policy, chain, short_time);
      if (absl::IsResourceExhausted(ended.status())) continue;
      ASSERT_TRUE(ended.ok()) << ended.status();
      EXPECT_EQ(CheckChainSchedule(chain, *ended), absl::OkStatus());
      EXPECT_FALSE(ended->stopped);
      EXPECT_EQ(ended->timed_out, !ended->proved);
      const auto whole = MakeChainSchedule(policy, chain, long_time);
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_FALSE(whole->timed_out);
      EXPECT_LE(whole->seconds, ended->seconds * (1 + 1e-12));
      EXPECT_LE(ended->lower_bound_seconds, whole->seconds * (1 + 1e-12));
      EXPECT_FALSE(ended->proved && whole->seconds < ended->seconds * (1 - 1e-9));
      worse += whole->seconds < ended->seconds * (1 - 1e-9) ? 1 : 0;
    }
  }
  EXPECT_GT(worse, 0);
}

// Only a search can tell that its policy has no schedule.
TEST(StoppedSearch, IsNoAnswerWithoutASchedule) {
  RandomChains random(42);
  const Chain chain = random.Next(12);
  const absl::Status status = MakeChainSchedule("tflms", chain, Stopped()).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// The memory of an operation alone is known without a search.
TEST(StoppedSearch, TellsAMemoryThatIsTooSmall) {
  RandomChains random(43);
  Chain chain = random.Next(12);
  chain.memory_bytes = LeastChainMemory(chain) - 1;
  EXPECT_TRUE(absl::IsResourceExhausted(MakeChainSchedule("best", chain, Stopped()).status()));
}

}  // namespace
}  // namespace tidepool
