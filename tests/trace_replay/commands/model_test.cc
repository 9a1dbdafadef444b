// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool model`: its output, its files and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ModelCommand : public CommandLine {};

TEST_F(ModelCommand, PrintsOneObject) {
  const Outcome outcome = Run({"model", "VGG16", "--batch", "64", "--gpu", "v100", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  const TaskGraph graph = *MakeModel("vgg-16", {.batch = 64, .gpu = "v100"});
  const GraphTotals totals = TotalsOf(graph);
  EXPECT_EQ(answer["model"], "vgg-16");
  EXPECT_EQ(answer["batch"], 64);
  EXPECT_EQ(answer["image"], 224);
  EXPECT_EQ(answer["gpu"], "v100");
  EXPECT_EQ(answer["tasks"], graph.tasks.size());
  EXPECT_EQ(answer["data"], graph.data.size());
  EXPECT_EQ(answer["parameters"], 138'357'544);
  EXPECT_EQ(answer["weight_bytes"], 4 * 138'357'544);
  EXPECT_EQ(answer["input_bytes"], 64 * (3 * 224 * 224 + 1) * 4);
  EXPECT_EQ(answer["activation_bytes"], totals.activations);
  EXPECT_EQ(answer["kept_activation_bytes"], totals.kept_activations);
  EXPECT_EQ(answer["largest_task"]["bytes"], totals.largest_task);
  EXPECT_EQ(answer["largest_task"]["task"], graph.tasks[totals.largest_task_index].name);
  EXPECT_EQ(answer["seconds"], totals.least_seconds);
  EXPECT_EQ(answer["least_workspace_seconds"], totals.least_workspace_seconds);
  EXPECT_EQ(answer["output"], nullptr);
}

TEST_F(ModelCommand, PrintsATable) {
  const Outcome outcome = Run({"model", "resnet-50", "--batch", "32", "--fused-batch-norm"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resnet-50\n  batch 32, image or tokens 224, times of h200"));
  EXPECT_THAT(outcome.out, HasSubstr("25,557,032"));
  EXPECT_THAT(outcome.out, HasSubstr("kept for the backward pass"));
}

TEST_F(ModelCommand, MakesAttentionUnfused) {
  const std::vector<std::string> command = {"model", "gpt2-small", "--batch", "2", "--json"};
  const json fused = json::parse(Run(command).out);
  std::vector<std::string> more = command;
  more.emplace_back("--unfused-attention");
  const json unfused = json::parse(Run(more).out);
  EXPECT_EQ(unfused["parameters"], fused["parameters"]);
  // A layer of attention keeps 12 x 1,024 x 1,024 scores of a sample, and no log-sum-exp.
  EXPECT_EQ(unfused["kept_activation_bytes"].get<std::int64_t>() -
                fused["kept_activation_bytes"].get<std::int64_t>(),
            std::int64_t{12} * 2 * 4 * (12 * 1024 * 1024 - 12 * 1024));
}

TEST_F(ModelCommand, WritesTheGraph) {
  const std::string output = folder_ / "graph.json";
  const Outcome outcome =
      Run({"model", "alexnet", "--batch", "8", "--image", "300", "-o", output, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["output"], output);
  const absl::StatusOr<TaskGraph> graph = ReadGraph(output);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(*graph == *MakeModel("alexnet", {.batch = 8, .image = 300}));
  EXPECT_EQ(json::parse(outcome.out)["parameters"], *ModelParameters("alexnet", 300));
}

TEST_F(ModelCommand, HasTheOptionsOfTraining) {
  const std::string output = folder_ / "graph.json";
  const Outcome outcome =
      Run({"model", "alexnet", "--batch", "4", "--precision", "bfloat16", "--optimizer", "adam",
           "--backward", "fused", "--weights", "host", "--inputs", "device", "--weight-gradients",
           "temporary", "--no-labels", "-o", output});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(*ReadGraph(output),
            *MakeModel("alexnet", {.batch = 4,
                                   .backward = BackwardTasks::kFused,
                                   .weight_gradients = WeightGradients::kTemporary,
                                   .optimizer = Optimizer::kAdam,
                                   .precision = Precision::kBfloat16,
                                   .labels = false,
                                   .inputs = DataHome::kDevice,
                                   .weights = DataHome::kHost}));
  ASSERT_EQ(Run({"model", "alexnet", "--batch", "4", "--input-gradient", "-o", output}).status, 0);
  EXPECT_EQ(*ReadGraph(output), *MakeModel("alexnet", {.batch = 4, .input_gradient = true}));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--batch", "4", "--optimizer", "lion"}),
              HasSubstr("--optimizer: unknown 'lion', expected one of sgd, momentum, adam"));
  EXPECT_THAT(
      ErrorOf({"model", "alexnet", "--batch", "4", "--backward", "fused", "--input-gradient"}),
      HasSubstr("expected split ones"));
}

TEST_F(ModelCommand, WritesTheGraphToStandardOutputAlone) {
  const Outcome outcome = Run({"model", "alexnet", "--batch", "8", "-o", "/dev/stdout"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const absl::StatusOr<TaskGraph> graph = ParseGraph(outcome.out, "out");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--batch", "8", "-o", "/dev/stdout", "--json"}),
              HasSubstr("--json"));
}

TEST_F(ModelCommand, TakesMeasuredTimes) {
  const std::string times = File("times.csv",
                                 "task,algorithm,seconds\nconv2.forward,implicit-gemm,0.25\n"
                                 "conv2.forward,fft,0.125\nconv2.forward,precomputed-gemm,0.25\n");
  const std::string output = folder_ / "graph.json";
  const Outcome outcome = Run({"model", "alexnet", "--batch", "8", "--times", times, "-o", output});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("and measured ones"));
  EXPECT_GT(TotalsOf(*ReadGraph(output)).least_seconds, 0.125);
}

TEST_F(ModelCommand, WritesAFamily) {
  const std::string output = folder_ / "family.json.gz";
  const Outcome outcome =
      Run({"model", "alexnet", "--family", "--batches", "1..3", "-o", output, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["output"], output);
  ASSERT_EQ(answer["batches"].size(), 3);
  const TaskGraph graph = *MakeModel("alexnet", {.batch = 3});
  EXPECT_EQ(answer["batches"][2]["batch"], 3);
  EXPECT_EQ(answer["batches"][2]["activation_bytes"], TotalsOf(graph).activations);
  EXPECT_EQ(answer["batches"][2]["seconds"], TotalsOf(graph).least_seconds);
  const auto family = ReadGraphOrFamily(output);
  ASSERT_TRUE(family.ok()) << family.status();
  EXPECT_TRUE(*GraphAt(std::get<GraphFamily>(*family), 3) == graph);
  const Outcome table = Run({"model", "alexnet", "--family"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("alexnet at any batch, image or tokens 227, times of h200"));
  EXPECT_THAT(table.out, HasSubstr("\n  512 "));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--family", "--batch", "8"}),
              HasSubstr("expected --batches"));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--batches", "8", "--batch", "8"}),
              HasSubstr("--batches: a table without --family"));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--family", "--batches", "2,1"}),
              HasSubstr("expected ascending batches"));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--family", "--batches", "0"}),
              HasSubstr("--batches: '0', expected a whole number from 1"));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--family", "--times", "t.csv"}),
              HasSubstr("--times: times of one batch"));
}

TEST_F(ModelCommand, ListsWhatIsKnown) {
  const Outcome table = Run({"model"});
  ASSERT_EQ(table.status, 0) << table.err;
  const Outcome object = Run({"model", "--json"});
  ASSERT_EQ(object.status, 0) << object.err;
  const json models = json::parse(object.out)["models"];
  ASSERT_EQ(models.size(), KnownModels().size());
  for (std::size_t i = 0; i < models.size(); ++i) {
    EXPECT_EQ(models[i]["model"], KnownModels()[i]);
    EXPECT_THAT(table.out, HasSubstr(KnownModels()[i]));
  }
  EXPECT_EQ(models[0]["image"], 227);
  const auto vgg = std::find_if(models.begin(), models.end(),
                                [](const json& one) { return one["model"] == "vgg-16"; });
  ASSERT_NE(vgg, models.end());
  EXPECT_EQ((*vgg)["parameters"], 138'357'544);
}

TEST_F(ModelCommand, RefusesWhatItCannotDo) {
  EXPECT_THAT(ErrorOf({"model", "--batch", "4", "-o", folder_ / "graph.json"}),
              HasSubstr("a network without a name"));
  EXPECT_THAT(ErrorOf({"model", "vgg-17", "--batch", "1"}),
              HasSubstr("unknown model 'vgg-17', expected one of alexnet, "));
  EXPECT_THAT(ErrorOf({"model", "vgg-16"}),
              HasSubstr("model: --batch is missing, expected samples an iteration, 1 to 1048576"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "0"}),
              HasSubstr("--batch: '0', expected a whole number from 1 to 1048576"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "-3"}), HasSubstr("--batch: '-3'"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "many"}), HasSubstr("batch"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "99999999999999999999"}), HasSubstr("batch"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "--image", "0"}),
              HasSubstr("--image: '0'"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "--image", "31"}),
              HasSubstr("layer 'pool5' gets 1 pixels a side"));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "--gpu", "voodoo"}),
              HasSubstr("unknown GPU 'voodoo'"));
  const std::string times = File("times.csv", "task,algorithm,seconds\nno,default,1\n");
  const std::string output = folder_ / "graph.json";
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "--times", times, "-o", output}),
              HasSubstr("times.csv:2: there is no task 'no'"));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "--times", folder_ / "none.csv"}),
              HasSubstr("none.csv: "));
  EXPECT_THAT(ErrorOf({"model", "vgg-16", "--batch", "1", "-o", folder_ / "no" / "graph.json"}),
              HasSubstr("graph.json: cannot be created"));
}

}  // namespace
}  // namespace tidepool
