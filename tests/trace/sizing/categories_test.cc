// SPDX-License-Identifier: Apache-2.0
// Categories of a small training step, and those of the user.
#include "tidepool/trace/categories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "absl/strings/match.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class Step {
 public:
  void Allocate(const std::string& id, std::string_view name = "", std::string_view file = "") {
    builder_.SetTag(name.empty() ? 0 : *builder_.Frame(0, name, file, 1));
    EXPECT_TRUE(builder_.Allocate(id, 1, Hint::kResident, "", 0).ok());
  }
  void Free(const std::string& id) { EXPECT_TRUE(builder_.Free(id, "", 0)); }
  TraceBuilder& builder() { return builder_; }

  // Returns the category of each id.
  std::map<std::string, std::string> Categories(const std::vector<CategoryRule>& rules = {}) {
    const Trace trace = builder_.Build();
    const TraceCategories categories = Categorize(trace, rules);
    std::map<std::string, std::string> by_id;
    for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
      by_id[std::string(trace.allocation_ids[i])] = categories.names[categories.of_allocations[i]];
    }
    return by_id;
  }

 private:
  TraceBuilder builder_{TraceFormat::kNative};
};

constexpr std::string_view kModule = "/x/torch/nn/modules/module.py";

TEST(Categories, FollowTheStacksOfATrainingStep) {
  Step step;
  step.Allocate("early");
  step.builder().BeginRecording();
  step.Allocate("weight", "_apply", kModule);
  step.Allocate("converted", "_apply", kModule);
  step.Free("converted");
  step.Allocate("activation", "forward", "model.py");
  step.Allocate("scratch", "forward", "model.py");
  step.Free("scratch");
  step.Allocate("gradient");  // autograd's threads run no Python
  step.Allocate("incoming", "torch::autograd::Engine::evaluate_function()", "");
  step.Free("incoming");
  step.Free("activation");
  step.Allocate("momentum", "_init_group", "/x/torch/optim/adamw.py");
  step.Allocate("update", "_foreach", "/x/torch/optim/adamw.py");
  step.Free("update");
  step.Free("gradient");
  step.Allocate("batch", "load", "data.py");
  EXPECT_THAT(step.Categories(),
              ElementsAre(Pair("activation", "activations"), Pair("batch", "unknown"),
                          Pair("converted", "temporary"), Pair("early", "before recording"),
                          Pair("gradient", "gradients"), Pair("incoming", "temporary"),
                          Pair("momentum", "optimizer state"), Pair("scratch", "temporary"),
                          Pair("update", "temporary"), Pair("weight", "weights")));
}

TEST(Categories, AreTemporaryOnlyInThePhaseOfTheAllocation) {
  Step step;
  step.Allocate("kept", "forward", "model.py");
  step.Allocate("gradient", "backward", "train.py");
  step.Allocate("first of a phase", "forward", "model.py");
  step.Free("first of a phase");
  step.Free("kept");  // in a forward phase, but a later one
  EXPECT_THAT(step.Categories(),
              ElementsAre(Pair("first of a phase", "temporary"), Pair("gradient", "gradients"),
                          Pair("kept", "activations")));
}

TEST(Categories, FollowMarksWhereStacksTellNothing) {
  Step step;
  TraceBuilder& builder = step.builder();
  step.Allocate("before");
  builder.Mark("## forward ##", 0);
  step.Allocate("activation");
  builder.MarkEnd("## forward ##", 0);
  builder.Mark("Backward", 0);
  step.Allocate("gradient");
  builder.MarkEnd("Backward", 0);
  builder.Mark("Optimizer.step#AdamW.step", 0);
  step.Allocate("state");
  builder.MarkEnd("Optimizer.step#AdamW.step", 0);
  step.Free("activation");
  step.Free("gradient");
  EXPECT_THAT(step.Categories(),
              ElementsAre(Pair("activation", "activations"), Pair("before", "unknown"),
                          Pair("gradient", "gradients"), Pair("state", "optimizer state")));
}

TEST(Categories, FollowTheOuterMarkAfterANestedOne) {
  Step step;
  TraceBuilder& builder = step.builder();
  builder.Mark("## forward ##", 0);
  builder.Mark("encoder.forward", 0);
  step.Allocate("inner");
  builder.MarkEnd("encoder.forward", 0);
  step.Allocate("outer");
  builder.MarkEnd("## forward ##", 0);
  step.Allocate("after");
  EXPECT_THAT(step.Categories(), ElementsAre(Pair("after", "unknown"), Pair("inner", "activations"),
                                             Pair("outer", "activations")));
}

TEST(Categories, OfTheUserComeFirst) {
  Step step;
  const TraceTag outer = *step.builder().Frame(0, "attention", "/u/model.py", 7);
  step.builder().SetTag(*step.builder().Frame(outer, "softmax", "/u/ops.py", 8));
  ASSERT_TRUE(step.builder().Allocate("a", 1, Hint::kResident, "", 0).ok());
  step.Allocate("b", "softmax", "/u/ops.py");
  step.Allocate("c", "forward", "/u/model.py");
  const auto contains = [](std::string part) {
    return [part](const std::string& frame) { return absl::StrContains(frame, part); };
  };
  EXPECT_THAT(step.Categories({{"attention", contains("/u/model.py:7 attention")},
                               {"softmax", contains("softmax")}}),
              ElementsAre(Pair("a", "attention"), Pair("b", "softmax"), Pair("c", "activations")));
}

TEST(Categories, SumToTheBytes) {
  Step step;
  step.Allocate("weight", "_apply", kModule);
  step.Allocate("activation", "forward", "model.py");
  const Trace trace = step.builder().Build();
  std::vector<std::uint32_t> all(trace.allocations.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<NamedBytes> parts = BytesByCategory(trace, Categorize(trace, {}), all, 512);
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].name, "weights");
  EXPECT_EQ(parts[0].bytes, 512);
  EXPECT_EQ(parts[1].name, "activations");
}

}  // namespace
}  // namespace tidepool
