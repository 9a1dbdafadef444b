// SPDX-License-Identifier: Apache-2.0
// Attention, losses and recurrent layers of the zoo: the data of their tasks, and their costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/training/models/made_model.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using Names = std::set<std::string>;

// GPUs on which a task takes a second for 10^12 operations, or bytes, and no time for the others.
constexpr double kRate = 1e12;
GpuRates CountsOperations() { return {"operations", kRate, 1e30, 0, 0}; }
GpuRates CountsBytes() { return {"bytes", 1e30, kRate, 0, 0}; }

// Returns the operations, or the bytes, of a task on such a GPU.
double WorkOf(const GraphTask& task) { return task.algorithms.front().seconds * kRate; }
double WorkOf(const TaskGraph& graph, const std::string& task) {
  return WorkOf(TaskOf(graph, task));
}

TEST(FusedAttention, KeepsNoScores) {
  const TaskGraph graph = Made("gpt2-small", {.batch = 2});
  const GraphTask& forward = TaskOf(graph, "block3.attention.forward");
  EXPECT_EQ(NamesOf(graph, forward.reads), (Names{"block3.attention.qkv.output"}));
  EXPECT_EQ(NamesOf(graph, forward.writes),
            (Names{"block3.attention.output", "block3.attention.log-sum-exp"}));
  const GraphTask& backward = TaskOf(graph, "block3.attention.backward");
  EXPECT_EQ(NamesOf(graph, backward.reads),
            (Names{"block3.attention.qkv.output", "block3.attention.output",
                   "block3.attention.log-sum-exp", "block3.attention.output.gradient"}));
  EXPECT_EQ(NamesOf(graph, backward.writes), (Names{"block3.attention.qkv.output.gradient"}));
  EXPECT_TRUE(forward.may_rerun);
  EXPECT_EQ(std::get<AttentionParameters>(forward.parameters), (AttentionParameters{.n = 2,
                                                                                    .heads = 12,
                                                                                    .key_heads = 12,
                                                                                    .queries = 1024,
                                                                                    .keys = 1024,
                                                                                    .features = 64,
                                                                                    .causal = 1}));
}

// Two products forward and five backward, each of 2 x batch x tokens x tokens x features, and a
// causal mask leaves half of them. FlashAttention's authors count so.
TEST(FusedAttention, CostsTwoProductsForwardAndFiveBackward) {
  const double product = 2.0 * 3 * 1024 * 1024 * 768;
  const TaskGraph gpt = Made("gpt2-small", {.batch = 3, .rates = CountsOperations()});
  EXPECT_DOUBLE_EQ(WorkOf(gpt, "block0.attention.forward"), 2 * product / 2 / 0.6);
  EXPECT_DOUBLE_EQ(WorkOf(gpt, "block0.attention.backward"), 5 * product / 2 / 0.6);
  const TaskGraph bert =
      Made("bert-base", {.batch = 3, .image = 1024, .rates = CountsOperations()});
  EXPECT_DOUBLE_EQ(WorkOf(bert, "block0.attention.forward"), 2 * product / 0.6);
}

TEST(FusedAttention, TouchesQueriesKeysValuesAndTheResult) {
  const TaskGraph llama = Made("llama-3-8b", {.batch = 2, .image = 128, .rates = CountsBytes()});
  EXPECT_DOUBLE_EQ(WorkOf(llama, "block0.attention.forward"),
                   4.0 * 2 * 128 * (4096 + 2 * 1024 + 4096));
}

// A graph of the kind that frameworks ran before.
TEST(UnfusedAttention, KeepsTheScores) {
  const TaskGraph graph = Made("gpt2-small", {.batch = 2, .fused_attention = false});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "block3.attention.context.backward").reads),
            (Names{"block3.attention.softmax.output", "block3.attention.qkv.output",
                   "block3.attention.context.output.gradient"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "block3.attention.softmax.backward").reads),
            (Names{"block3.attention.softmax.output", "block3.attention.softmax.output.gradient"}));
  for (const GraphData& data : graph.data) {
    if (data.name == "block3.attention.softmax.output") {
      EXPECT_EQ(data.bytes, 4LL * 2 * 12 * 1024 * 1024);
    }
  }
  for (const char* task : {"block3.attention.scores.forward", "block3.attention.softmax.forward"}) {
    EXPECT_TRUE(TaskOf(graph, task).may_rerun) << task;
  }
}

// Scores need queries and keys; values come with the second product.
TEST(UnfusedAttention, TakesGroupedQueries) {
  const TaskGraph graph = Made("llama-3-8b", {.batch = 1, .image = 64, .fused_attention = false});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "block0.attention.scores.forward").reads),
            (Names{"block0.attention.q.output", "block0.attention.k.output"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "block0.attention.context.forward").reads),
            (Names{"block0.attention.softmax.output", "block0.attention.v.output"}));
}

TEST(UnfusedAttention, HasTheSameParametersAndMoreMemory) {
  for (const char* model : {"gpt2-small", "bert-base", "llama-3-1b", "vit-b-16"}) {
    const TaskGraph fused = Made(model, {.batch = 2});
    const TaskGraph unfused = Made(model, {.batch = 2, .fused_attention = false});
    EXPECT_EQ(TotalsOf(fused).weights, TotalsOf(unfused).weights) << model;
    EXPECT_LT(TotalsOf(fused).kept_activations, TotalsOf(unfused).kept_activations) << model;
  }
}

TEST(CrossEntropy, KeepsLogitsAndNoProbabilities) {
  const TaskGraph graph = Made("gpt2-small", {.batch = 2});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "loss.forward").writes), (Names{"loss.log-sum-exp"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "loss.backward").reads),
            (Names{"head.output", "labels", "loss.log-sum-exp"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "loss.backward").writes), (Names{"head.output.gradient"}));
}

TEST(Llama, RotatesQueriesAndKeysInPlace) {
  const TaskGraph graph = Made("llama-3-8b", {.batch = 1, .image = 64});
  const GraphTask& forward = TaskOf(graph, "block5.attention.q.rotary.forward");
  EXPECT_EQ(NamesOf(graph, forward.updates), (Names{"block5.attention.q.output"}));
  EXPECT_FALSE(forward.may_rerun);
  const GraphTask& backward = TaskOf(graph, "block5.attention.k.rotary.backward");
  EXPECT_TRUE(backward.reads.empty());
  EXPECT_EQ(NamesOf(graph, backward.updates), (Names{"block5.attention.k.output.gradient"}));
}

// Both projections and the product are kept: 2 x 14,336 features enter the unit.
TEST(Llama, GatedUnitKeepsBothProjections) {
  const TaskGraph graph = Made("llama-3-8b", {.batch = 1, .image = 64});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "block0.mlp.swiglu.backward").reads),
            (Names{"block0.mlp.gate.output", "block0.mlp.up.output",
                   "block0.mlp.swiglu.output.gradient"}));
}

// Kaplan et al. (arXiv:2001.08361): about six operations for each token and weight, without the
// embedding, and those of attention.
TEST(Llama, ComputesSixOperationsForEachTokenAndWeight) {
  constexpr double kTokens = 2048;
  const TaskGraph graph =
      Made("llama-3-8b", {.batch = 1, .image = 2048, .rates = CountsOperations()});
  double products = 0;
  double attention = 0;
  for (const GraphTask& task : graph.tasks) {
    if (task.operation == "linear" && task.phase != TaskPhase::kUpdate)
      products += 0.8 * WorkOf(task);
    if (task.operation == "attention") attention += 0.6 * WorkOf(task);
  }
  const double embedding = 128256.0 * 4096;
  const double norms = (2 * 32 + 1) * 4096.0;
  EXPECT_NEAR(products / (6 * kTokens * (8'030'261'248.0 - embedding - norms)), 1, 1e-12);
  EXPECT_NEAR(attention / (32 * 3.5 * 2 * kTokens * kTokens * 4096), 1, 1e-12);
}

TEST(Lstm, StepsShareTheirWeights) {
  const TaskGraph graph = Made("lstm-medium", {.batch = 20});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "lstm2.step2.forward").reads),
            (Names{"lstm1.step2.output", "lstm2.step1.output", "lstm2.step1.cell",
                   "lstm2.step1.weight", "lstm2.step1.bias"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "lstm2.step2.forward").writes),
            (Names{"lstm2.step2.output", "lstm2.step2.cell", "lstm2.step2.gates"}));
  // The last step comes first in the backward pass, and makes the gradients of the weights.
  EXPECT_THAT(NamesOf(graph, TaskOf(graph, "lstm2.step35.backward").writes),
              ::testing::IsSupersetOf({"lstm2.step1.weight.gradient", "lstm2.step1.bias.gradient",
                                       "lstm2.step34.cell.gradient"}));
  EXPECT_THAT(NamesOf(graph, TaskOf(graph, "lstm2.step34.backward").updates),
              ::testing::IsSupersetOf({"lstm2.step1.weight.gradient", "lstm2.step1.bias.gradient",
                                       "lstm2.step33.output.gradient"}));
  EXPECT_EQ(std::ranges::count(graph.tasks, TaskPhase::kUpdate, &GraphTask::phase),
            4);  // the embedding, two layers, the head
}

// The second layer's step adds nothing to the gradient of its input alone: the first layer's next
// step does.
TEST(Lstm, StateBeforeTheFirstStepIsNoData) {
  const TaskGraph graph = Made("lstm-medium", {.batch = 20});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "lstm1.step1.forward").reads),
            (Names{"embedding.output", "lstm1.step1.weight", "lstm1.step1.bias"}));
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "lstm1.step1.backward").updates),
            (Names{"embedding.output.gradient", "lstm1.step1.weight.gradient",
                   "lstm1.step1.bias.gradient"}));
}

TEST(Unet, CopiesAreCroppedAndShared) {
  const TaskGraph graph = Made("u-net", {.batch = 1});
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "up1.concat.forward").reads),
            (Names{"up1.up.output", "down1.conv2.output"}));
  // Pool and concatenation read the features, so the pool's backward task adds to their gradient.
  EXPECT_EQ(NamesOf(graph, TaskOf(graph, "pool1.backward").updates),
            (Names{"down1.conv2.output.gradient"}));
  EXPECT_EQ(std::get<ConvolutionParameters>(TaskOf(graph, "up4.up.forward").parameters).k, 512);
}

}  // namespace
}  // namespace tidepool
