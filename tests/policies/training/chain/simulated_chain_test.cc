// SPDX-License-Identifier: Apache-2.0
// Chains through the whole pipeline: their graph, a schedule, a program, and its simulation. The
// makespans are exactly those of the model.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "policies/training/chain/transfer_schedule.h"
#include "tests/policies/training/chain/simulated_seconds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;
using testing::RandomChains;

double SimulatedSeconds(const TaskGraph& graph, const GraphChain& made,
                        const ChainTransfers& transfers) {
  const ChainTimes times = PlaceTransfers(made.chain, transfers).value();
  return testing::SimulatedSeconds(
      graph, made,
      ScheduleChain(graph, made, chain_policies::ScheduleOf(made.chain, transfers, times)));
}

double SimulatedSeconds(const Chain& chain, const ChainTransfers& transfers) {
  const TaskGraph graph = *FromChain(chain);
  const bool has_order = graph.data.back().name == "order";
  const std::int64_t memory = chain.memory_bytes + (has_order ? 1 : 0);
  return SimulatedSeconds(graph, *ToChain(graph, {.memory_bytes = memory}), transfers);
}

// Returns the transfers without those that do nothing: of activations without bytes, and of the
// last activation if it would come back before F_i, which reads it, ends.
ChainTransfers Useful(const Chain& chain, ChainTransfers transfers) {
  const auto remove = [&](const auto& is_useless) {
    std::erase_if(transfers.offloads, is_useless);
    std::erase_if(transfers.prefetches, is_useless);
  };
  remove([&](std::size_t i) { return chain.x[i] == 0; });
  while (!transfers.offloads.empty()) {
    const ChainTimes times = *PlaceTransfers(chain, transfers);
    const std::size_t last =
        *std::max_element(transfers.offloads.begin(), transfers.offloads.end());
    const auto at = std::find(transfers.prefetches.begin(), transfers.prefetches.end(), last) -
                    transfers.prefetches.begin();
    const double end = times.forward_starts[last] + chain.forward_seconds[last];
    if (times.prefetch_starts[static_cast<std::size_t>(at)] >= end - 1e-12 * times.seconds) break;
    remove([&](std::size_t i) { return i == last; });
  }
  return transfers;
}

TEST(SimulatedChain, HasTheMakespansOfTheOracle) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int exact = 0;
  int shorter = 0;
  for (const ChainVector& vector : testing::ReadChainVectors()) {
    if (!vector.expect.contains("set_makespans")) continue;
    for (const nlohmann::json& entry : vector.expect["set_makespans"]) {
      if (entry["integral"].is_null()) continue;
      const std::vector<std::size_t> set = entry["set"];
      SCOPED_TRACE(vector.name + " {" + absl::StrJoin(set, ",") + "}");
      const ChainTransfers transfers = OrderedTransfers(set);
      const ChainTransfers useful = Useful(vector.chain, transfers);
      const double simulated = SimulatedSeconds(vector.chain, useful);
      const double expected = entry["integral"];
      const double placed = PlaceTransfers(vector.chain, useful)->seconds;
      ASSERT_TRUE(AreClose(simulated, placed)) << simulated << " " << placed;
      ASSERT_LE(simulated, expected * (1 + 1e-9));
      (AreClose(simulated, expected) ? exact : shorter) += 1;
    }
  }
  EXPECT_GE(exact, 197);
  // The oracle sends activations back and forth that never leave.
  EXPECT_LE(shorter, 8);
}

TEST(SimulatedChain, HasTheMakespansOfTheModel) {
  RandomChains random(5);
  int chains = 0;
  int waits = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t operations = static_cast<std::size_t>(random.Below(8)) + 1;
    const Chain chain = random.Next(operations);
    const ChainTransfers all = random.Transfers(operations);
    if (!PlaceTransfers(chain, all).ok()) continue;
    const ChainTransfers transfers = Useful(chain, all);
    SCOPED_TRACE(ChainJson(chain) + absl::StrJoin(transfers.offloads, ",") + " " +
                 absl::StrJoin(transfers.prefetches, ","));
    const double simulated = SimulatedSeconds(chain, transfers);
    const double expected = PlaceTransfers(chain, transfers)->seconds;
    ASSERT_TRUE(AreClose(simulated, expected)) << simulated << " " << expected;
    ++chains;
    waits += expected > ChainSeconds(chain) ? 1 : 0;
  }
  EXPECT_GT(chains, 1000);
  EXPECT_GT(waits, 500);
}

// A network runs as its chain says, or faster, because memory is taken task by task.
TEST(SimulatedChain, BoundsNetworks) {
  for (const char* name : {"alexnet", "vgg-16", "resnet-50", "densenet-121", "inception-v3"}) {
    SCOPED_TRACE(name);
    TaskGraph graph = *MakeModel(name, {.batch = 16});
    // In the model x_0 is on the device at the start.
    for (GraphData& data : graph.data) {
      if (data.kind == DataKind::kInput) data.before = DataHome::kDevice;
    }
    GraphChain made = *ToChain(graph, {.memory_bytes = std::int64_t{1} << 59});
    const std::int64_t least = LeastChainMemory(made.chain);
    made.chain.memory_bytes = least + (ChainPeak(made.chain) - least) / 3;
    std::vector<std::size_t> set;
    for (std::size_t i = 0; i + 1 < made.chain.x.size(); ++i) set.push_back(i);
    const ChainTransfers transfers = OrderedTransfers(set);
    const double seconds = PlaceTransfers(made.chain, transfers)->seconds;
    const double simulated = SimulatedSeconds(graph, made, transfers);
    EXPECT_GT(simulated, 0);
    EXPECT_LE(simulated, seconds * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace tidepool
