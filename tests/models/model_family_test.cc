// SPDX-License-Identifier: Apache-2.0
// Families of the zoo: at every batch they give the graph that the zoo makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tidepool/schedule/graph_family.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelFamily, EveryNetworkHasOne) {
  for (const std::string& name : KnownModels()) {
    const absl::StatusOr<GraphFamily> family = MakeModelFamily(name, {}, {1, 4, 16});
    ASSERT_TRUE(family.ok()) << name << ": " << family.status();
    const TaskGraph made = *MakeModel(name, {.batch = 5});
    EXPECT_TRUE(*GraphAt(*family, 5) == made) << name;
    // The file has the table alone.
    const absl::StatusOr<GraphOrFamily> read = ParseGraphOrFamily(FamilyJson(*family), name);
    ASSERT_TRUE(read.ok()) << name << ": " << read.status();
    const auto& from_file = std::get<GraphFamily>(*read);
    EXPECT_TRUE(*GraphAt(from_file, 16) == *MakeModel(name, {.batch = 16})) << name;
    EXPECT_TRUE(GraphAt(from_file, 5)->data == made.data) << name;
  }
}

TEST(ModelFamily, HasTheBatchesThatWereAskedFor) {
  const auto family = MakeModelFamily("alexnet", {.fused_batch_normalization = true}, {7});
  ASSERT_TRUE(family.ok()) << family.status();
  EXPECT_THAT(family->batches, ElementsAre(7));
  EXPECT_THAT(std::string(MakeModelFamily("alexnet", {}, {}).status().message()),
              HasSubstr("without batches"));
  EXPECT_THAT(std::string(MakeModelFamily("alexnut", {}, {1}).status().message()),
              HasSubstr("unknown model 'alexnut'"));
  EXPECT_THAT(std::string(MakeModelFamily("alexnet", {}, {1, 1 << 21}).status().message()),
              HasSubstr("2097152"));
  EXPECT_THAT(std::string(MakeModelFamily("alexnet", {}, {2, 1}).status().message()),
              HasSubstr("expected ascending batches"));
}

}  // namespace
}  // namespace tidepool
