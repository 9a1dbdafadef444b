// SPDX-License-Identifier: Apache-2.0
// The registry, and each policy's choice on an arena where they differ.
#include "tidepool/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/memory/blocks/arena.h"
#include "tidepool/planned_placement.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlacementRegistry, ListsThePolicies) {
  EXPECT_THAT(PlacementPolicyNames(), ElementsAre("best-fit", "exact-fit-first", "high-end-offload",
                                                  "first-fit", "planned"));
  for (const std::string& name : PlacementPolicyNames()) {
    ASSERT_TRUE(MakePlacementPolicy(name).ok()) << name;
    EXPECT_EQ((*MakePlacementPolicy(name))->IsStateful(), name == "planned") << name;
  }
}

TEST(PlacementRegistry, OnlyPlannedNeedsAPlan) {
  EXPECT_THAT(PlacementPolicyNames({.needs_plan = true}), ElementsAre("planned"));
  EXPECT_THAT(PlacementPolicyNames({.needs_plan = false}),
              ElementsAre("best-fit", "exact-fit-first", "high-end-offload", "first-fit"));
  for (const std::string& name : PlacementPolicyNames()) {
    EXPECT_EQ(PlacementTraitsOf(name)->needs_plan, name == "planned") << name;
  }
  EXPECT_EQ(PlacementTraitsOf("worst-fit").status().code(), absl::StatusCode::kNotFound);
}

TEST(PlacementRegistry, GivesPlansToThePolicyThatNeedsThem) {
  const auto plan = std::make_shared<const PlacementPlan>(
      std::vector<PlannedRequest>{{.bytes = 512, .offset = 1024}});
  const auto planned = MakePlacementPolicy("planned", {.plans = {plan}});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(dynamic_cast<PlannedPlacement&>(**planned).followed(), plan.get());
  blocks::Arena arena(4096, 512, **planned);
  EXPECT_EQ(arena.Allocate(512, Hint::kResident), 1024);
}

TEST(PlacementRegistry, RefusesPlansForAPolicyThatNeedsNone) {
  const auto plan = std::make_shared<const PlacementPlan>(std::vector<PlannedRequest>{});
  const auto policy = MakePlacementPolicy("best-fit", {.plans = {plan}});
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(policy.status().message(),
            "a plan with placement best-fit, expected placement planned");
}

TEST(PlacementRegistry, NamesTheKnownOnesWhenAskedForAnother) {
  const auto policy = MakePlacementPolicy("worst-fit");
  ASSERT_EQ(policy.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr("'worst-fit'"));
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr("best-fit, exact-fit-first"));
}

TEST(MakePlacementPolicy, ExplainsTheModelsOfOtherAllocators) {
  for (const char* name : {"pytorch", "pytorch-expandable"}) {
    const auto policy = MakePlacementPolicy(name);
    ASSERT_EQ(policy.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(policy.status().message()),
                ::testing::HasSubstr("it models PyTorch's allocator"));
  }
}

// An arena with holes of 4, 2, 3 and 2 granules, in address order, and 5 at the end.
class Choice : public ::testing::Test {
 protected:
  std::int64_t Place(const std::string& name, std::int64_t granules, Hint hint) {
    std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(name);
    blocks::Arena arena(20 * 512, 512, *policy);
    std::vector<std::int64_t> holes;
    for (const int hole : {4, 2, 3, 2}) {
      holes.push_back(arena.Allocate(hole * 512, Hint::kResident));
      arena.Allocate(512, Hint::kResident);
    }
    for (const std::int64_t offset : holes) arena.Free(offset);
    return arena.Allocate(granules * 512, hint) / 512;
  }
};

TEST_F(Choice, BestFitTakesTheSmallestAndOfEqualsTheLowest) {
  EXPECT_EQ(Place("best-fit", 1, Hint::kResident), 5);
  EXPECT_EQ(Place("best-fit", 2, Hint::kOffloadable), 5);
  EXPECT_EQ(Place("best-fit", 3, Hint::kResident), 8);
  EXPECT_EQ(Place("best-fit", 5, Hint::kResident), 15);
}

TEST_F(Choice, ExactFitFirstElseTheLowest) {
  EXPECT_EQ(Place("exact-fit-first", 2, Hint::kResident), 5);
  EXPECT_EQ(Place("exact-fit-first", 3, Hint::kResident), 8);
  EXPECT_EQ(Place("exact-fit-first", 1, Hint::kResident), 0);
}

TEST_F(Choice, FirstFitTakesTheLowest) {
  EXPECT_EQ(Place("first-fit", 2, Hint::kResident), 0);
  EXPECT_EQ(Place("first-fit", 5, Hint::kResident), 15);
}

TEST_F(Choice, HighEndOffloadPutsTemporaryDataOnTop) {
  EXPECT_EQ(Place("high-end-offload", 2, Hint::kOffloadable), 18);
  EXPECT_EQ(Place("high-end-offload", 2, Hint::kResident), 5);
}

// Notes the calls that it receives, and places by best-fit.
class Noting final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    return Placement::LowEnd(blocks.SmallestFit(request.bytes));
  }
  bool IsStateful() const override { return true; }
  void OnPlaced(std::int64_t offset, std::int64_t bytes) override {
    placed_.emplace_back(offset, bytes);
  }
  void OnFree(std::int64_t offset, std::int64_t bytes) override {
    freed_.emplace_back(offset, bytes);
  }
  void OnMark(std::string_view name) override { marks_.emplace_back(name); }

  std::vector<std::pair<std::int64_t, std::int64_t>> placed_;
  std::vector<std::pair<std::int64_t, std::int64_t>> freed_;
  std::vector<std::string> marks_;
};

TEST(StatefulPolicy, IsToldOfWhatWasPlacedFreedAndMarked) {
  Noting policy;
  blocks::Arena arena(4 * 512, 512, policy);
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(1024, Hint::kResident), 512);
  EXPECT_EQ(arena.Allocate(1024, Hint::kResident), blocks::kNoOffset);
  EXPECT_TRUE(arena.Free(512));
  EXPECT_FALSE(arena.Free(512));
  arena.Mark("iteration");
  EXPECT_THAT(policy.placed_, ElementsAre(std::pair(0, 512), std::pair(512, 1024)));
  EXPECT_THAT(policy.freed_, ElementsAre(std::pair(512, 1024)));
  EXPECT_THAT(policy.marks_, ElementsAre("iteration"));
}

}  // namespace
}  // namespace tidepool
