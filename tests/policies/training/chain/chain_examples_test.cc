// SPDX-License-Identifier: Apache-2.0
// Policies and relaxations on a few chains that ship with the project. Their values are those of an
// independent oracle in exact arithmetic; the field names are the oracle's.
#include <gtest/gtest.h>

#include "policies/training/chain/idle_search.h"
#include "policies/training/chain/paper_values.h"
#include "policies/training/chain/slots.h"
#include "tests/training/chain/chain_vectors.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using nlohmann::json;
using testing::AreClose;

class ChainExamples : public ::testing::TestWithParam<json> {
 protected:
  ChainExamples()
      : chain_(ParseChain(GetParam()["instance"].dump(), "example").value()),
        expect_(GetParam()["expect"]) {}

  double Seconds(const char* policy) const {
    return MakeChainSchedule(policy, chain_, {}).value().seconds;
  }

  const Chain chain_;
  const json expect_;
};

TEST_P(ChainExamples, GreedyIsTheOracles) {
  const ChainSchedule schedule = MakeChainSchedule("greedy", chain_, {}).value();
  const json& greedy = expect_["greedy"];
  const std::size_t operations = chain_.forward_seconds.size();
  EXPECT_EQ(json(OffloadedIndices(schedule)), greedy["set"]);
  EXPECT_TRUE(AreClose(schedule.seconds, greedy["makespan"]));
  const std::pair<ChainAction, const char*> starts[] = {{ChainAction::kForward, "F_start"},
                                                        {ChainAction::kBackward, "B_start"}};
  for (const auto& [action, key] : starts) {
    const std::vector<double> ours = FirstStarts(schedule, action, operations);
    for (std::size_t i = 0; i < operations; ++i) {
      EXPECT_NEAR(ours[i], greedy[key][i].get<double>(), 1e-9 * schedule.seconds) << key << i;
    }
  }
}

TEST_P(ChainExamples, RelaxationsAreTheOracles) {
  for (const json& entry : expect_["set_makespans"]) {
    const std::vector<std::size_t> set = entry["set"];
    const absl::StatusOr<double> seconds = chain_policies::FractionalMakespan(chain_, set);
    ASSERT_EQ(seconds.ok(), !entry["fractional"].is_null());
    if (seconds.ok()) {
      EXPECT_TRUE(AreClose(*seconds, entry["fractional"]));
    }
  }
  const chain_policies::FractionalOptimum optimum =
      chain_policies::FindFractionalOptimum(chain_).value();
  EXPECT_TRUE(optimum.proved);
  EXPECT_TRUE(AreClose(optimum.seconds, expect_["dp_fractional_makespan"]));
}

TEST_P(ChainExamples, PoliciesAreTheOracles) {
  if (expect_.contains("vdnn")) {
    EXPECT_TRUE(AreClose(Seconds("vdnn-ratio"), expect_["vdnn"]["makespan"]));
  }
  const auto range = expect_.find("dynprog_makespan_range");
  if (range == expect_.end()) return;
  EXPECT_GE(Seconds("dynprog"), (*range)[0].get<double>() * (1 - 1e-9));
  EXPECT_LE(Seconds("dynprog"), (*range)[1].get<double>() * (1 + 1e-9));
}

TEST_P(ChainExamples, SlotsAreTheOracles) {
  for (const json& expected : expect_.value("discretized", json::array())) {
    const chain_policies::FractionalChain in_slots =
        chain_policies::InSlots(chain_, expected["slots"]);
    EXPECT_EQ(json(in_slots.x), expected["first_iteration"]["x"]);
    EXPECT_EQ(json(in_slots.forward), expected["first_iteration"]["uF"]);
    EXPECT_EQ(chain_policies::FindLeastIdle(in_slots)->idle, expected["first_idle_slots"]);
  }
}

std::vector<json> Examples() {
  return testing::Json(std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "tests" / "support" /
                       "chain_examples.json");
}

INSTANTIATE_TEST_SUITE_P(Oracle, ChainExamples, ::testing::ValuesIn(Examples()),
                         [](const auto& example) {
                           return example.param["name"].template get<std::string>();
                         });

}  // namespace
}  // namespace tidepool
