// SPDX-License-Identifier: Apache-2.0
// AlexNet and VGG-16 against the request sequences of vDNN++ (tests/support/vdnnpp): the same
// number of tensors, of the same sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/paper_models.h"
#include "tests/support/shared_files.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

// Sizes by the names of the trace.
using Sizes = std::map<std::string, std::int64_t>;

Sizes SizesOfTrace(const std::filesystem::path& path) {
  Sizes sizes;
  std::istringstream rows(testing::Contents(path));
  std::string row;
  while (std::getline(rows, row)) {
    if (!absl::StartsWith(row, "a,")) continue;
    const std::size_t comma = row.find(',', 2);
    sizes[row.substr(2, comma - 2)] = std::stoll(row.substr(comma + 1));
  }
  return sizes;
}

// X0 is the input, and X1, X2, ... are the outputs of layers that are not in place, in their order.
Sizes SizesOfGraph(const TaskGraph& graph) {
  Sizes sizes;
  std::map<std::size_t, std::string> names;
  int tensors = 0;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    const std::string layer = data.name.substr(0, data.name.find('.'));
    if (data.kind == DataKind::kInput || data.kind == DataKind::kActivation) {
      const std::string number = absl::StrCat("X", tensors++);
      sizes[number] = data.bytes;
      if (data.kind == DataKind::kActivation) sizes["d" + number] = -1;
      names[i] = number;
    }
    if (data.kind == DataKind::kWeight) {
      const std::string name = (absl::EndsWith(data.name, ".bias") ? "b" : "W") + layer;
      sizes[name] = data.bytes;
      sizes["d" + name] = -1;
    }
  }
  for (const GraphData& data : graph.data) {
    if (data.kind != DataKind::kGradient && data.kind != DataKind::kWeightGradient) continue;
    const std::string of = data.name.substr(0, data.name.rfind(".gradient"));
    for (std::size_t i = 0; i < graph.data.size(); ++i) {
      if (graph.data[i].name != of) continue;
      const std::string layer = of.substr(0, of.find('.'));
      const bool is_weight = graph.data[i].kind == DataKind::kWeight;
      sizes["d" + (is_weight ? (absl::EndsWith(of, ".bias") ? "b" : "W") + layer : names[i])] =
          data.bytes;
    }
  }
  return sizes;
}

struct Trace {
  std::string network;
  std::int64_t batch;
  std::string model;
};

class VdnnppSizes : public ::testing::TestWithParam<Trace> {};

INSTANTIATE_TEST_SUITE_P(Networks, VdnnppSizes,
                         ::testing::Values(Trace{"alexnet", 128, "alexnet"},
                                           Trace{"alexnet", 256, "alexnet"},
                                           Trace{"vgg16", 16, "vgg-16"},
                                           Trace{"vgg16", 64, "vgg-16"}));

TEST_P(VdnnppSizes, OfTensorsAreEqual) {
  const Trace& trace = GetParam();
  const auto path = testing::VdnnppTraces() /
                    absl::StrCat(trace.network, "_b", trace.batch, "_all_m_prefetch.csv");
  const TaskGraph graph = *MakeModel(trace.model, testing::PaperModel(trace.batch));
  EXPECT_EQ(SizesOfGraph(graph), SizesOfTrace(path));
}

// The workspaces of the performance-optimal mode: wsB3 is that of the layer that reads X3.
TEST_P(VdnnppSizes, OfWorkspacesAreEqual) {
  const Trace& trace = GetParam();
  const auto path = testing::VdnnppTraces() /
                    absl::StrCat(trace.network, "_b", trace.batch, "_all_p_prefetch.csv");
  const TaskGraph graph = *MakeModel(trace.model, testing::PaperModel(trace.batch));
  std::vector<std::size_t> tensors;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const DataKind kind = graph.data[i].kind;
    if (kind == DataKind::kInput || kind == DataKind::kActivation) tensors.push_back(i);
  }
  int compared = 0;
  for (const auto& [name, bytes] : SizesOfTrace(path)) {
    int number = 0;
    if (!absl::StartsWith(name, "wsB") || !absl::SimpleAtoi(name.substr(3), &number)) continue;
    for (const GraphTask& task : graph.tasks) {
      if (task.operation != "conv" || task.phase != TaskPhase::kForward) continue;
      if (task.reads.front() != tensors[static_cast<std::size_t>(number)]) continue;
      EXPECT_EQ(task.algorithms.back().workspace_bytes, bytes) << name << " " << task.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

// Returns the bytes of vDNN++ section III-C: inputs of convolutions, of pools and of the first
// linear layer.
std::int64_t PinnedBytes(const TaskGraph& graph) {
  std::set<std::size_t> inputs;
  bool has_linear = false;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kForward) continue;
    const bool is_first_linear = task.operation == "linear" && !std::exchange(has_linear, true);
    if (is_first_linear || task.operation == "conv" || task.operation.ends_with("-pool")) {
      inputs.insert(task.reads.front());
    }
  }
  std::int64_t bytes = 0;
  for (const std::size_t data : inputs) bytes += graph.data[data].bytes;
  return bytes;
}

// The paper's ResNet-152 of 10,193 MiB has the stride in the first convolution of a block.
// torchvision's needs more, because that convolution's output is larger.
TEST(VdnnppPinnedMemory, IsTheInputsOfConvolutionsPoolsAndTheFirstLinear) {
  for (const auto& [model, mib] :
       {std::pair("alexnet", 452.70), std::pair("vgg-16", 7435.75),
        std::pair("resnet-152-v1", 10193.0), std::pair("resnet-152", 10450.25)}) {
    const std::int64_t bytes = PinnedBytes(*MakeModel(model, {.batch = 128}));
    EXPECT_NEAR(static_cast<double>(bytes) / (1 << 20), mib, 0.005) << model;
  }
  EXPECT_EQ(PinnedBytes(*MakeModel("resnet-152-v1", {.batch = 128})), std::int64_t{10193} << 20);
}

}  // namespace
}  // namespace tidepool
