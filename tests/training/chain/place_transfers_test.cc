// SPDX-License-Identifier: Apache-2.0
// Times of transfers against an exhaustive search, and against the rules of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "tests/training/chain/random_chain.h"
#include "tests/training/chain/slow_chain.h"
#include "tidepool/training/chain.h"

namespace tidepool {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomChains;
using testing::SlowChain;

TEST(PlaceTransfers, AreAsGoodAsExhaustiveSearch) {
  RandomChains random(1);
  int waits = 0;
  int misfits = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t operations = static_cast<std::size_t>(random.Below(5)) + 1;
    Chain chain = random.WholeSeconds(operations);
    if (i % 3 == 0) random.LetGradientsStay(chain);
    const ChainTransfers transfers = random.Transfers(operations);
    SCOPED_TRACE(ChainJson(chain) + absl::StrJoin(transfers.offloads, ",") + " " +
                 absl::StrJoin(transfers.prefetches, ","));
    const std::optional<int> best = SlowChain(chain, transfers).Best();
    const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
    ASSERT_EQ(times.ok(), best.has_value()) << times.status();
    if (!best.has_value()) {
      EXPECT_EQ(times.status().code(), absl::StatusCode::kResourceExhausted);
      ++misfits;
      continue;
    }
    ASSERT_THAT(times->seconds, DoubleEq(*best));
    EXPECT_LE(ChainOperationBound(chain), times->seconds);
    waits += times->seconds > ChainSeconds(chain) ? 1 : 0;
  }
  EXPECT_GT(waits, 500);
  EXPECT_GT(misfits, 500);
}

// Two operations, of which the first one's input must leave before the second one fits.
Chain TwoOperations() {
  return {.forward_seconds = {1, 1},
          .backward_seconds = {1, 1},
          .forward_extra = {0, 0},
          .backward_extra = {0, 0},
          .x = {4, 2, 2},
          .y = {0, 0, 0},
          .link_bytes_per_second = 2,
          .memory_bytes = 6};
}

TEST(PlaceTransfers, WaitForWhatLeaves) {
  const std::vector<std::size_t> set = {0};
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(TwoOperations(), OrderedTransfers(set));
  ASSERT_TRUE(times.ok()) << times.status();
  // x_0 leaves from 0 to 2, beside F_0; F_1 waits for its memory, and so on from the end.
  EXPECT_THAT(times->offload_starts, ElementsAre(0));
  EXPECT_THAT(times->forward_starts, ElementsAre(0, 2));
  EXPECT_THAT(times->backward_starts, ElementsAre(6, 3));
  EXPECT_THAT(times->prefetch_starts, ElementsAre(4));
  EXPECT_EQ(times->gap, 0);
  EXPECT_EQ(times->seconds, 7);
  EXPECT_EQ(*OrderedMakespan(TwoOperations(), set), 7);
}

TEST(PlaceTransfers, NameTheOperationThatDoesNotFit) {
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(TwoOperations(), {});
  EXPECT_EQ(times.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(times.status().message()), HasSubstr("F_1 needs 2 bytes more"));
  EXPECT_FALSE(OrderedMakespan(TwoOperations(), {}).ok());
}

TEST(PlaceTransfers, RefuseOtherIndices) {
  for (const ChainTransfers& transfers :
       {ChainTransfers{{2}, {2}}, ChainTransfers{{0, 0}, {0}}, ChainTransfers{{0}, {1}},
        ChainTransfers{{0}, {}}, ChainTransfers{{}, {0}}}) {
    const absl::StatusOr<ChainTimes> times = PlaceTransfers(TwoOperations(), transfers);
    EXPECT_EQ(times.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(times.status().message()), HasSubstr("expected"));
  }
}

TEST(ChainBounds, OfASmallChain) {
  Chain chain = TwoOperations();
  chain.forward_extra = {1, 0};
  chain.backward_extra = {5, 0};
  chain.y = {1, 2, 3};
  EXPECT_THAT(ForwardBytes(chain), ElementsAre(7, 8));
  EXPECT_THAT(BackwardBytes(chain), ElementsAre(14, 13));
  EXPECT_EQ(ChainPeak(chain), 14);
  EXPECT_EQ(LeastChainMemory(chain), 14);
  EXPECT_EQ(ChainSeconds(chain), 4);
  EXPECT_EQ(ChainLowerBound(chain), 8);  // 8 bytes out and in
  // B_0 comes last: 4 seconds for 8 bytes before it, and 4 after it.
  EXPECT_EQ(ChainOperationBound(chain), 9);
  chain.memory_bytes = 12;
  EXPECT_EQ(ChainLowerBound(chain), 4);
  EXPECT_EQ(ChainOperationBound(chain), 5);
}

}  // namespace
}  // namespace tidepool
