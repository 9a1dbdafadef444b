// SPDX-License-Identifier: Apache-2.0
// Families of the zoo: at every batch they give the graph that the zoo makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tidepool/training/graph_family.h"
#include "tidepool/training/model_zoo.h"

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

// With every option that changes sizes or times.
TEST(ModelFamily, EveryNetworkHasOneForAllOptions) {
  const ModelOptions options = {.gpu = "a100",
                                .fused_batch_normalization = true,
                                .weight_gradients = WeightGradients::kTemporary,
                                .optimizer = Optimizer::kAdam,
                                .precision = Precision::kBfloat16,
                                .weights = DataHome::kHost};
  for (const std::string& name : KnownModels()) {
    const absl::StatusOr<GraphFamily> family = MakeModelFamily(name, options, {1, 1000});
    ASSERT_TRUE(family.ok()) << name << ": " << family.status();
    for (const std::int64_t batch : {1, 3, 32, 1000}) {
      ModelOptions at_batch = options;
      at_batch.batch = batch;
      EXPECT_TRUE(*GraphAt(*family, batch) == *MakeModel(name, at_batch)) << name << " " << batch;
    }
  }
}

TEST(ModelFamily, SizesOfDataThatStaysDoNotGrow) {
  const GraphFamily family = *MakeModelFamily("resnet-18", {.optimizer = Optimizer::kAdam}, {1});
  for (std::size_t i = 0; i < family.graph.data.size(); ++i) {
    const GraphData& data = family.graph.data[i];
    const bool is_fixed = ExistsAfter(data) || data.name.ends_with(".statistics");
    EXPECT_EQ(family.bytes_per_sample[i] == 0, is_fixed) << data.name;
    EXPECT_EQ(data.bytes > 0, is_fixed) << data.name;
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
