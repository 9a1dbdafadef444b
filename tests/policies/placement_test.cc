// The registry, and each policy's choice on an arena where they differ.
#include "tidepool/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/blocks/arena.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlacementRegistry, ListsThePolicies) {
  EXPECT_THAT(PlacementPolicyNames(),
              ElementsAre("best-fit", "exact-fit-first", "high-end-offload", "first-fit"));
  for (const std::string& name : PlacementPolicyNames()) {
    EXPECT_TRUE(MakePlacementPolicy(name).ok()) << name;
    EXPECT_FALSE((*MakePlacementPolicy(name))->HasMemory()) << name;
  }
}

TEST(PlacementRegistry, NamesTheKnownOnesWhenAskedForAnother) {
  const auto policy = MakePlacementPolicy("worst-fit");
  ASSERT_EQ(policy.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr("'worst-fit'"));
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr("best-fit, exact-fit-first"));
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

// A policy with memory: the door that a planned placement will come through.
class Cursor final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    const BlockId block = blocks.Covering(next_, request.bytes);
    const Placement placement = block == kNoBlock ? Placement::None() : Placement::At(block, next_);
    next_ += 2 * request.bytes;
    return placement;
  }
  bool HasMemory() const override { return true; }
  void OnFree(std::int64_t offset, std::int64_t bytes) override {
    freed_.emplace_back(offset, bytes);
  }
  void OnMark(std::string_view /*name*/) override { next_ = 0; }

  std::vector<std::pair<std::int64_t, std::int64_t>> freed_;

 private:
  std::int64_t next_ = 0;
};

TEST(PolicyWithMemory, FollowsAPlanAndIsToldOfFreesAndMarks) {
  Cursor policy;
  blocks::Arena arena(16 * 512, 512, policy);
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 0);
  EXPECT_EQ(arena.Allocate(1024, Hint::kResident), 1024);
  EXPECT_TRUE(arena.Free(1024));
  EXPECT_TRUE(arena.Free(0));
  arena.Mark("iteration");
  EXPECT_EQ(arena.Allocate(1, Hint::kResident), 0);
  EXPECT_THAT(policy.freed_, ElementsAre(std::pair(1024, 1024), std::pair(0, 512)));
  EXPECT_TRUE(arena.blocks().CheckInvariants().ok());
}

}  // namespace
}  // namespace tidepool
