// SPDX-License-Identifier: Apache-2.0
// Sums over whole networks that papers name, and the example of docs/formats/task_graph.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "tests/support/shared_files.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool {
namespace {

TaskGraph Made(const std::string& name, std::int64_t batch, std::int64_t image = 0) {
  absl::StatusOr<TaskGraph> graph =
      MakeModel(name, {.batch = batch, .image = image, .fused_batch_normalization = true});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : TaskGraph();
}

// moDNN's ideal case: all data of an iteration at once.
double GigabytesOf(const TaskGraph& graph) {
  double bytes = 0;
  for (const GraphData& data : graph.data) bytes += static_cast<double>(data.bytes);
  return bytes / 1e9;
}

// moDNN, section 7.1, as ../shared/papers.md recounts it: fused normalisation, data without
// workspaces.
TEST(Modnn, OnlyResNet34FitsTwelveGigabytes) {
  EXPECT_LT(GigabytesOf(Made("resnet-34", 256)), 12);
  for (const auto& [name, batch] : {std::pair("vgg-16", 256), std::pair("vgg-19", 256),
                                    std::pair("vgg-101", 128), std::pair("resnet-152", 256)}) {
    EXPECT_GT(GigabytesOf(Made(name, batch)), 24) << name;
  }
  const double fcn = GigabytesOf(Made("fcn-8s", 128, 224));
  EXPECT_GT(fcn, 12);
  EXPECT_LT(fcn, 24);
}

TEST(Modnn, Vgg101NeedsNearlyAHundredGigabytes) {
  EXPECT_NEAR(GigabytesOf(Made("vgg-101", 128)), 85.8, 0.05);
}

// vDNN++'s base manager (section V): outputs, parameters and their gradients stay, and two pieces
// of memory hold the gradients of layers in turn.
double BaseGibibytes(const TaskGraph& graph) {
  double bytes = 0;
  std::vector<std::int64_t> gradients = {0, 0};
  for (const GraphData& data : graph.data) {
    if (data.kind == DataKind::kGradient) {
      gradients.push_back(data.bytes);
    } else {
      bytes += static_cast<double>(data.bytes);
    }
  }
  std::sort(gradients.rbegin(), gradients.rend());
  return (bytes + static_cast<double>(gradients[0] + gradients[1])) / (1 << 30);
}

// The paper's figures are rounded: 1.1, "about 20" and "30".
TEST(Vdnnpp, BaseNeedsWhatThePaperSays) {
  EXPECT_NEAR(BaseGibibytes(Made("alexnet", 128)), 1.1, 0.05);
  EXPECT_NEAR(BaseGibibytes(Made("vgg-116", 32)), 20, 1);
  EXPECT_NEAR(BaseGibibytes(Made("vgg-191", 32)), 30, 1);
}

// Returns the peak of live bytes while the tasks run in their order, each datum from its writer to
// its last user.
std::int64_t PeakOfWalk(const TaskGraph& graph) {
  std::vector<std::size_t> last_use(graph.data.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) last_use[data] = i;
    }
  }
  std::int64_t live = 0;
  for (const GraphData& data : graph.data) {
    if (data.kind == DataKind::kInput || data.kind == DataKind::kWeight) live += data.bytes;
  }
  std::int64_t peak = live;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    for (const std::size_t data : task.writes) live += graph.data[data].bytes;
    peak = std::max(peak, live);
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        const GraphData& it = graph.data[data];
        if (last_use[data] == i && it.kind != DataKind::kWeight) live -= it.bytes;
      }
    }
  }
  // All is gone but the weights.
  EXPECT_EQ(live, TotalsOf(graph).weights) << graph.name;
  return peak;
}

TEST(Walk, PeakLiesBetweenWhatIsKeptAndAll) {
  for (const std::string& name : KnownModels()) {
    const TaskGraph graph = Made(name, 4);
    const GraphTotals totals = TotalsOf(graph);
    const std::int64_t peak = PeakOfWalk(graph);
    EXPECT_GE(peak, totals.weights + totals.kept_activations) << name;
    EXPECT_GE(peak, totals.largest_task) << name;
    EXPECT_LT(static_cast<double>(peak), GigabytesOf(graph) * 1e9) << name;
  }
}

// Computed by hand. The peak of AlexNet is in fc6.backward. Of the kept data, X0 to X8 are live (X9
// ended with the gradient of relu6), with the gradients of the layer's weights, output and input.
TEST(Walk, PeakOfAlexNetIsInItsFirstLinearLayer) {
  const TaskGraph graph = Made("alexnet", 128);
  const std::int64_t inputs = 474'691'072;  // X0 to X8: 452.70 MiB
  const std::int64_t weights = 4 * 62'378'344;
  const std::int64_t weight_gradients = 150'994'944 + 16'384;
  const std::int64_t gradients = 2'097'152 + 4'718'592;
  EXPECT_EQ(PeakOfWalk(graph), inputs + weights + weight_gradients + gradients);
}

TEST(Documentation, ItsExampleIsAGraph) {
  const std::string page = testing::Contents(std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "docs" /
                                             "formats" / "task_graph.md");
  const std::size_t begin = page.find("```json\n") + 8;
  const absl::StatusOr<TaskGraph> graph =
      ParseGraph(page.substr(begin, page.find("```", begin) - begin), "task_graph.md");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->tasks.size(), 4);
}

}  // namespace
}  // namespace tidepool
