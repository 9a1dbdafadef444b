// SPDX-License-Identifier: Apache-2.0
// Chains of graphs: those of the zoo, random ones, and small ones by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tests/training/chain/lasting_graphs.h"
#include "tests/training/chain/random_chain.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

bool IsOfChain(const GraphData& data) {
  return data.kind == DataKind::kInput || data.kind == DataKind::kActivation ||
         data.kind == DataKind::kGradient;
}

bool Uses(const GraphTask& task, std::size_t data) {
  for (const auto* list : {&task.reads, &task.writes, &task.updates}) {
    if (std::find(list->begin(), list->end(), data) != list->end()) return true;
  }
  return false;
}

// Returns the memory beside each task, by the first and last task that use each datum.
std::vector<std::int64_t> SlowWalk(const TaskGraph& graph) {
  std::vector<std::int64_t> bytes;
  for (const GraphTask& task : graph.tasks) {
    bytes.push_back(task.algorithms.front().workspace_bytes);
  }
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (!IsOfChain(graph.data[data])) continue;
    std::size_t first = graph.tasks.size();
    std::size_t last = 0;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (!Uses(graph.tasks[i], data)) continue;
      first = std::min(first, i);
      last = i;
    }
    if (ExistsBefore(graph.data[data])) first = 0;
    if (ExistsAfter(graph.data[data])) last = graph.tasks.size() - 1;
    for (std::size_t i = first; i <= last; ++i) bytes[i] += graph.data[data].bytes;
  }
  return bytes;
}

std::int64_t PeakOf(const std::vector<std::int64_t>& bytes, std::size_t begin, std::size_t end) {
  std::int64_t peak = 0;
  for (std::size_t i = begin; i < end; ++i) peak = std::max(peak, bytes[i]);
  return peak;
}

// Returns the part of each task.
std::vector<std::size_t> PartsOfTasks(const TaskGraph& graph, const GraphChain& made) {
  std::vector<std::size_t> parts(graph.tasks.size(), made.parts.size());
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const GraphChain::Part& part = made.parts[i];
    for (std::size_t task = part.forward_begin; task < part.forward_end; ++task) parts[task] = i;
    for (std::size_t task = part.backward_begin; task < part.backward_end; ++task) parts[task] = i;
  }
  return parts;
}

// Expects that only parts k - 1 and k use an activation of x_k, and that F_k leaves it unchanged.
void ExpectUsesInParts(const TaskGraph& graph, const GraphChain& made, std::size_t data,
                       std::size_t k) {
  const std::vector<std::size_t> parts = PartsOfTasks(graph, made);
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    if (!Uses(graph.tasks[task], data)) continue;
    const std::size_t part = parts[task];
    EXPECT_TRUE(part == k || part + 1 == k) << graph.data[data].name << " of x_" << k << " in part "
                                            << part << ", task " << graph.tasks[task].name;
    const auto& updates = graph.tasks[task].updates;
    const bool is_changed = std::find(updates.begin(), updates.end(), data) != updates.end();
    const bool is_forward = graph.tasks[task].phase == TaskPhase::kForward;
    EXPECT_FALSE(is_forward && part == k && is_changed) << graph.data[data].name;
  }
}

// Checks a chain against its graph: it has all tasks, their time, and exactly their memory.
void ExpectChainOf(const TaskGraph& graph, const GraphChain& made) {
  ASSERT_TRUE(ValidateChain(made.chain).ok()) << ValidateChain(made.chain);
  const std::vector<std::int64_t> walk = SlowWalk(graph);
  std::size_t forward = 0;
  std::size_t backward = graph.tasks.size();
  const std::vector<std::int64_t> forward_bytes = ForwardBytes(made.chain);
  const std::vector<std::int64_t> backward_bytes = BackwardBytes(made.chain);
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const GraphChain::Part& part = made.parts[i];
    EXPECT_EQ(part.forward_begin, forward);
    EXPECT_LT(part.forward_begin, part.forward_end);
    EXPECT_EQ(part.backward_end, backward);
    EXPECT_LE(part.backward_begin, part.backward_end);
    forward = part.forward_end;
    backward = part.backward_begin;
    EXPECT_EQ(forward_bytes[i], PeakOf(walk, part.forward_begin, part.forward_end));
    if (part.backward_begin == part.backward_end && i + 1 == made.parts.size()) continue;
    EXPECT_EQ(backward_bytes[i], PeakOf(walk, part.backward_begin, part.backward_end)) << i;
  }
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(ChainPeak(made.chain), PeakOf(walk, 0, walk.size()));
  EXPECT_NEAR(ChainSeconds(made.chain), TotalsOf(graph).least_workspace_seconds,
              1e-9 * ChainSeconds(made.chain));
  for (std::size_t k = 0; k < made.activations.size(); ++k) {
    std::int64_t bytes = 0;
    for (const std::size_t data : made.activations[k]) {
      bytes += graph.data[data].bytes;
      ExpectUsesInParts(graph, made, data, k);
    }
    EXPECT_EQ(bytes, made.chain.x[k]);
  }
}

bool IsGradientOfWeights(const TaskGraph& graph, std::size_t data) {
  return graph.data[data].kind == DataKind::kWeightGradient;
}

// Returns the part of a task that computes gradients of weights, or the rest.
GraphTask PartOf(const TaskGraph& graph, const GraphTask& task, bool of_weights) {
  GraphTask part = task;
  part.name += of_weights ? ".of_weights" : ".of_data";
  const auto is_other = [&](std::size_t data) {
    return IsGradientOfWeights(graph, data) != of_weights;
  };
  std::erase_if(part.writes, is_other);
  std::erase_if(part.updates, is_other);
  // The gradient of weights needs the input of the layer, the gradient of the input the weights.
  std::erase_if(part.reads, [&](std::size_t data) {
    const DataKind kind = graph.data[data].kind;
    return of_weights ? kind == DataKind::kWeight
                      : kind == DataKind::kActivation || kind == DataKind::kInput;
  });
  return part;
}

// Splits the backward tasks of convolutions and linear layers that compute both kinds of gradients.
TaskGraph WithSplitTasks(const TaskGraph& graph) {
  TaskGraph split = graph;
  split.tasks.clear();
  for (const GraphTask& task : graph.tasks) {
    const GraphTask data = PartOf(graph, task, false);
    const GraphTask weights = PartOf(graph, task, true);
    const bool has_both = !(data.writes.empty() && data.updates.empty()) &&
                          !(weights.writes.empty() && weights.updates.empty());
    const bool is_product = task.operation == "conv" || task.operation == "linear";
    if (task.phase != TaskPhase::kBackward || !has_both || !is_product) {
      split.tasks.push_back(task);
    } else if (split.tasks.size() % 2 == 0) {
      split.tasks.insert(split.tasks.end(), {data, weights});
    } else {
      split.tasks.insert(split.tasks.end(), {weights, data});
    }
  }
  return split;
}

TEST(ToChain, KeepsTheMemoryOfSplitBackwardTasks) {
  for (const char* name :
       {"alexnet", "vgg-16", "resnet-50", "densenet-121", "inception-v3", "gpt2-small"}) {
    SCOPED_TRACE(name);
    const TaskGraph whole = *MakeModel(name, {.batch = 4});
    for (const bool has_layers : {true, false}) {
      TaskGraph graph = WithSplitTasks(whole);
      ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
      for (GraphTask& task : graph.tasks) {
        if (!has_layers) task.layer = "";
      }
      const absl::StatusOr<GraphChain> made = ToChain(graph, {.memory_bytes = kMuchMemory});
      ASSERT_TRUE(made.ok()) << made.status();
      ExpectChainOf(graph, *made);
      // A split task may have a lower peak, so some parts are joined.
      const GraphChain of_whole = *ToChain(whole, {.memory_bytes = kMuchMemory});
      EXPECT_GE(5 * made->parts.size(), 4 * of_whole.parts.size());
    }
  }
}

std::string Report(const std::string& name, const GraphChain& made) {
  std::int64_t offloadable = 0;
  for (const std::int64_t bytes : made.chain.x) offloadable += bytes;
  return absl::StrCat(name, ": ", made.parts.size(), " parts, peak ", ChainPeak(made.chain) >> 20,
                      " MiB, activations ", offloadable >> 20, " MiB, least memory ",
                      LeastChainMemory(made.chain) >> 20, " MiB\n");
}

TEST(ToChain, KeepsTheMemoryOfEveryModel) {
  for (const std::string& name : KnownModels()) {
    SCOPED_TRACE(name);
    for (const bool fused : {false, true}) {
      const absl::StatusOr<TaskGraph> graph =
          MakeModel(name, {.batch = 4, .fused_batch_normalization = fused});
      ASSERT_TRUE(graph.ok()) << graph.status();
      const absl::StatusOr<GraphChain> made = ToChain(*graph, {.memory_bytes = kMuchMemory});
      ASSERT_TRUE(made.ok()) << made.status();
      ExpectChainOf(*graph, *made);
      // All steps of an LSTM read one tensor of words, and one tensor has their results.
      EXPECT_GT(made->parts.size(), name.starts_with("lstm") ? 2 : 5);
      EXPECT_EQ(made->chain.memory_bytes, kMuchMemory - made->resident_bytes);
      if (std::getenv("TIDEPOOL_PRINT") != nullptr) std::cout << Report(name, *made);
    }
  }
}

TEST(ToChain, TakesTheAlgorithmsOfTheCaller) {
  const TaskGraph graph = *MakeModel("vgg-16", {.batch = 8});
  ChainOptions options = {.memory_bytes = kMuchMemory};
  double seconds = 0;
  for (const GraphTask& task : graph.tasks) {
    options.algorithms.push_back(task.algorithms.size() - 1);
    seconds += task.algorithms.back().seconds;
  }
  const absl::StatusOr<GraphChain> made = ToChain(graph, options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NEAR(ChainSeconds(made->chain), seconds, 1e-9 * seconds);
  EXPECT_GT(ChainPeak(made->chain),
            ChainPeak(ToChain(graph, {.memory_bytes = kMuchMemory})->chain));
  EXPECT_EQ(made->algorithms, options.algorithms);
}

TEST(ToChain, RefusesWrongOptions) {
  TaskGraph graph = *MakeModel("alexnet", {.batch = 1});
  const auto error = [&](const ChainOptions& options) {
    const absl::StatusOr<GraphChain> made = ToChain(graph, options);
    EXPECT_FALSE(made.ok());
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("expected"));
    return made.status().code();
  };
  EXPECT_EQ(error({.memory_bytes = 1}), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(error({.memory_bytes = kMuchMemory, .algorithms = {0}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error({.memory_bytes = kMuchMemory,
                   .algorithms = std::vector<std::size_t>(graph.tasks.size(), 99)}),
            absl::StatusCode::kInvalidArgument);
  graph.link_bytes_per_second = 0;
  EXPECT_EQ(error({.memory_bytes = kMuchMemory}), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(ToChain(graph, {.memory_bytes = kMuchMemory, .link_bytes_per_second = 1}).ok());
  graph.tasks.back().phase = TaskPhase::kForward;
  EXPECT_EQ(error({.memory_bytes = kMuchMemory, .link_bytes_per_second = 1}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ToChain(graph, {.link_bytes_per_second = 1}).status().message()),
              HasSubstr("micro-batches"));
}

// A chain without y_(L+1), which a graph has as workspace of B_L.
Chain WithoutLastGradient(Chain chain) {
  chain.backward_extra.back() += chain.y.back();
  chain.y.back() = 0;
  return chain;
}

TEST(FromChain, IsUndoneByToChain) {
  testing::RandomChains random(1);
  for (int i = 0; i < 3000; ++i) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(12)) + 1);
    SCOPED_TRACE(ChainJson(chain));
    const absl::StatusOr<TaskGraph> graph = FromChain(chain);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_TRUE(ValidateGraph(*graph).ok());
    const bool has_order = graph->data.back().name == "order";
    const absl::StatusOr<GraphChain> made =
        ToChain(*graph, {.memory_bytes = chain.memory_bytes + (has_order ? 1 : 0)});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->chain, WithoutLastGradient(chain)) << ChainJson(made->chain);
    ExpectChainOf(*graph, *made);
  }
}

// Gradients that stay through a backward operation count once beside it.
TEST(FromChain, IsUndoneWithGradientsThatStay) {
  testing::RandomChains random(2);
  for (int i = 0; i < 500; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(8)) + 1);
    random.LetGradientsStay(chain);
    chain = WithoutLastGradient(chain);
    SCOPED_TRACE(ChainJson(chain));
    const TaskGraph graph = *FromChain(chain);
    const Chain made = ToChain(graph, {.memory_bytes = kMuchMemory, .recomputation = true})->chain;
    EXPECT_EQ(BackwardBytes(made), BackwardBytes(chain));
    for (std::size_t k = 1; k < chain.y.size(); ++k) EXPECT_EQ(made.y[k], chain.y[k]);
  }
}

TEST(FromChain, RefusesSizesThatGraphsDoNotHave) {
  Chain chain = testing::RandomChains(1).Next(2);
  chain.y[2] = std::int64_t{1} << 50;
  chain.backward_extra[1] = std::int64_t{1} << 50;
  EXPECT_EQ(FromChain(chain).status().code(), absl::StatusCode::kInvalidArgument);
}

// Makes data so large that none counts as resident because it is small.
void WithoutSmallData(TaskGraph& graph) {
  std::int64_t most = 0;
  for (const GraphData& data : graph.data) most = std::max(most, data.bytes);
  for (GraphData& data : graph.data) data.bytes = std::max(data.bytes, most / 100);
}

// Any graph has a chain with its memory, though perhaps of few parts.
TEST(ToChain, KeepsTheMemoryOfRandomGraphs) {
  testing::RandomGraphs random(1);
  int several_parts = 0;
  for (int i = 0; i < 2000; ++i) {
    TaskGraph graph = random.Valid(random.Below(20) + 1);
    const std::size_t turn = random.Below(graph.tasks.size()) + 1;
    for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
      graph.tasks[task].phase = task < turn ? TaskPhase::kForward : TaskPhase::kBackward;
      if (random.Chance(0.5)) graph.tasks[task].layer = "";
    }
    WithoutSmallData(graph);
    const absl::StatusOr<GraphChain> made =
        ToChain(graph, {.memory_bytes = kMuchMemory, .link_bytes_per_second = 1});
    ASSERT_TRUE(made.ok()) << made.status();
    SCOPED_TRACE(GraphJson(graph));
    ExpectChainOf(graph, *made);
    if (::testing::Test::HasFailure()) return;
    several_parts += made->parts.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(several_parts, 100);
}

// The lists for recomputation come from the graph alone.
TEST(ToChain, KnowsOutputsAndTasksThatRunOnce) {
  testing::RandomChains random(41);
  for (int i = 0; i < 200; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(8)) + 1);
    chain.output = chain.x;
    for (std::size_t k = 1; k < chain.x.size(); ++k) {
      chain.x[k] = std::max<std::int64_t>(chain.x[k], 1);
      chain.output[k] = chain.x[k] * random.Below(3) / 2;
      if (random.Below(4) == 0) chain.runs_once.push_back(k - 1);
    }
    // All of the last activation is output: no operation reads a part of it.
    chain.output.back() = chain.x.back();
    SCOPED_TRACE(ChainJson(chain));
    const TaskGraph graph = *FromChain(chain);
    const GraphChain made = *ToChain(graph, {.memory_bytes = kMuchMemory, .recomputation = true});
    EXPECT_EQ(made.chain.x, chain.x);
    EXPECT_EQ(made.chain.output, chain.output);
    EXPECT_EQ(made.chain.runs_once, chain.runs_once);
    EXPECT_EQ(made.chain.forward_extra, chain.forward_extra);
    for (std::size_t k = 0; k + 1 < chain.x.size(); ++k) {
      // A run writes all, and then gives the rest back.
      EXPECT_EQ(made.chain.output_extra[k] + chain.output[k + 1],
                chain.forward_extra[k] + chain.x[k + 1]);
      EXPECT_EQ(made.outputs[k] == GraphChain::kNoOutput,
                chain.output[k] == chain.x[k] || chain.output[k] == 0);
    }
  }
}

// Adds a datum that a task writes and the tasks [begin, end) read.
void AddRead(TaskGraph& graph, std::int64_t bytes, std::size_t writer, std::size_t begin,
             std::size_t end) {
  const std::size_t number = graph.data.size();
  graph.data.push_back({.name = absl::StrCat("lasting ", number), .bytes = bytes});
  graph.tasks[writer].writes.push_back(number);
  for (std::size_t i = begin; i < end; ++i) graph.tasks[i].reads.push_back(number);
}

// A mask that each block reads, and the gradient of the loss, which the program holds to the end.
TEST(ToChain, CutsBesideSmallDataThatLasts) {
  const TaskGraph plain = *MakeModel("gpt-2", {.batch = 2});
  const std::size_t backward = testing::FirstOf(plain, TaskPhase::kBackward);
  const std::size_t update = testing::FirstOf(plain, TaskPhase::kUpdate);
  for (const bool recomputation : {false, true}) {
    const ChainOptions options = {.memory_bytes = kMuchMemory, .recomputation = recomputation};
    const GraphChain expected = *ToChain(plain, options);
    TaskGraph graph = plain;
    AddRead(graph, 4, backward - 1, update - 1, update);
    AddRead(graph, 1024, 0, 1, update);
    ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
    const GraphChain made = *ToChain(graph, options);
    EXPECT_EQ(made.parts, expected.parts);
    EXPECT_EQ(made.chain.x, expected.chain.x);
    EXPECT_EQ(made.resident_bytes, expected.resident_bytes + 1028);
    graph.data.back().bytes = std::int64_t{1} << 30;  // large data is resident only for reruns
    EXPECT_EQ(ToChain(graph, options)->parts.size(), recomputation ? expected.parts.size() : 1);
  }
}

// A sum that the program holds while its blocks run, as the images of a vision transformer, and
// data of each block that it holds until the loss, as autocast its copies of weights.
TEST(ToChain, CutsBesideLargeDataThatLivesLong) {
  const TaskGraph plain = testing::ResidualGraph(16, 1 << 20, 16 << 20);
  const ChainOptions options = {
      .memory_bytes = kMuchMemory, .link_bytes_per_second = 1, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  ASSERT_GE(expected.parts.size(), 16);
  const std::size_t backward = testing::FirstOf(plain, TaskPhase::kBackward);
  TaskGraph graph = plain;
  AddRead(graph, 2 << 20, 0, backward - 1, backward);
  for (std::size_t i = 1; i + 4 < backward; i += 3) {
    AddRead(graph, 1 << 20, i, backward - 1, backward);
  }
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const GraphChain made = *ToChain(graph, options);
  ASSERT_TRUE(ValidateChain(made.chain).ok()) << ValidateChain(made.chain);
  EXPECT_GE(made.parts.size(), 14);
  EXPECT_EQ(made.chain.runs_once, std::vector<std::size_t>{});
  EXPECT_LE(made.resident_bytes, expected.resident_bytes + (17 << 20));
  // Without cuts the iteration would need all data at once.
  EXPECT_LT(made.chain.x.back(), ChainPeak(made.chain) / 4);
}

// A second run of the task that writes such data would undo the update, one of a task that reads it
// before would read another value.
TEST(ToChain, RunsTasksOfLaterUpdatesOnce) {
  const TaskGraph plain = testing::ResidualGraph(16, 1 << 20, 16 << 20);
  const std::size_t backward = testing::FirstOf(plain, TaskPhase::kBackward);
  for (const bool is_updated : {false, true}) {
    TaskGraph graph = plain;
    AddRead(graph, 2 << 20, 1, 2, backward + 1);
    if (is_updated) {
      graph.tasks[backward - 2].reads.pop_back();
      graph.tasks[backward - 2].updates.push_back(plain.data.size());
      graph.tasks[backward - 2].may_rerun = false;
    }
    ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
    const GraphChain made = *ToChain(
        graph, {.memory_bytes = kMuchMemory, .link_bytes_per_second = 1, .recomputation = true});
    EXPECT_EQ(made.chain.runs_once.empty(), !is_updated);
    for (std::size_t i = 0; is_updated && i < made.parts.size(); ++i) {
      EXPECT_EQ(made.parts[i].forward_end > 1 && made.parts[i].forward_begin < backward - 1,
                std::binary_search(made.chain.runs_once.begin(), made.chain.runs_once.end(), i));
    }
  }
}

// Adds before each of the tasks, in order, weights that are gathered for it: a task takes memory,
// and one fills it. The program holds them until the second task from the next ones on.
void GatherBefore(TaskGraph& graph, const std::vector<std::size_t>& tasks, std::int64_t bytes) {
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const std::size_t at = tasks[k] + 2 * k;
    const std::size_t data = graph.data.size();
    graph.data.push_back({.name = absl::StrCat("gathered ", data), .bytes = bytes});
    GraphTask take = {.name = absl::StrCat("take ", data), .writes = {data}};
    GraphTask fill = {.name = absl::StrCat("fill ", data), .updates = {data}};
    take.algorithms = fill.algorithms = {{"only", 0, 0}};
    graph.tasks[at].reads.push_back(data);
    if (k > 0) graph.tasks[at + 1].reads.push_back(data - 1);
    graph.tasks.insert(graph.tasks.begin() + static_cast<std::ptrdiff_t>(at), {take, fill});
  }
}

// The buffers of `fully_shard`: each lasts into the next block, and is filled by a task that
// changes nothing else. They stay, so that the tasks of their blocks may run again.
TEST(ToChain, CutsBesideGatheredWeights) {
  const TaskGraph plain = testing::ResidualGraph(16, 1 << 20, 16 << 20);
  const ChainOptions options = {
      .memory_bytes = kMuchMemory, .link_bytes_per_second = 1, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  std::vector<std::size_t> begins;
  for (const GraphChain::Part& part : expected.parts) begins.push_back(part.forward_begin);
  TaskGraph graph = plain;
  GatherBefore(graph, begins, 1 << 20);
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const GraphChain made = *ToChain(graph, options);
  EXPECT_GE(made.parts.size(), expected.parts.size());
  // The last weights are used in the last part alone, which is never run again.
  EXPECT_EQ(made.chain.runs_once, std::vector<std::size_t>{made.parts.size() - 1});
}

// Data of blocks one after the other, each larger than what a cut saves.
TEST(ToChain, KeepsLargeDataInItsPart) {
  const TaskGraph plain = testing::ResidualGraph(16, 1 << 20, 16 << 20);
  const ChainOptions options = {
      .memory_bytes = kMuchMemory, .link_bytes_per_second = 1, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  TaskGraph graph = plain;
  const std::size_t backward = testing::FirstOf(plain, TaskPhase::kBackward);
  for (std::size_t i = 0; i + 12 < backward; i += 12) AddRead(graph, 1 << 30, i, i + 12, i + 13);
  const GraphChain made = *ToChain(graph, options);
  EXPECT_EQ(made.resident_bytes, expected.resident_bytes);
  EXPECT_LT(made.parts.size(), expected.parts.size());
}

// Each normalization of a compiled network makes new values of its buffers. The program copies them
// after the forward tasks.
TEST(ToChain, CutsBesideNewValuesOfBuffers) {
  const TaskGraph plain = *MakeModel("resnet-50", {.batch = 4});
  const std::size_t backward = testing::FirstOf(plain, TaskPhase::kBackward);
  const std::size_t end = backward - 8;  // the last pool
  for (const bool recomputation : {false, true}) {
    const ChainOptions options = {.memory_bytes = kMuchMemory, .recomputation = recomputation};
    TaskGraph graph = plain;
    for (std::size_t i = 0; i < end; ++i) AddRead(graph, 512, i, backward, backward + 1);
    const GraphChain made = *ToChain(graph, options);
    const GraphChain expected = *ToChain(plain, options);
    EXPECT_EQ(made.parts, expected.parts);
    EXPECT_EQ(made.chain.runs_once, expected.chain.runs_once);
    EXPECT_GT(made.resident_bytes, expected.resident_bytes);
    EXPECT_EQ(
        ChainPeak(made.chain) + made.resident_bytes,
        ChainPeak(expected.chain) + expected.resident_bytes + static_cast<std::int64_t>(512 * end));
  }
}

// Random masks stay, so that the other tasks of their parts may run again.
TEST(ToChain, KeepsResultsOfTasksThatRunOnce) {
  const TaskGraph plain = *MakeModel("gpt-2", {.batch = 4});
  const ChainOptions options = {.memory_bytes = kMuchMemory, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  ASSERT_TRUE(expected.chain.runs_once.empty());
  TaskGraph graph = plain;
  const std::int64_t masks = testing::AddMasks(graph, std::int64_t{1} << 20);
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const GraphChain made = *ToChain(graph, options);
  EXPECT_EQ(made.chain.x, expected.chain.x);
  EXPECT_EQ(made.chain.runs_once, std::vector<std::size_t>{});
  EXPECT_EQ(made.resident_bytes, expected.resident_bytes + masks);
  EXPECT_TRUE(made.resident.at(plain.data.size()));
  // Masks that are most of an activation take too much memory to stay.
  for (std::size_t i = plain.data.size(); i < graph.data.size(); ++i) {
    graph.data[i].bytes = std::int64_t{1} << 30;
  }
  EXPECT_FALSE(ToChain(graph, options)->chain.runs_once.empty());
}

// A gradient that the iteration makes takes memory from its task on, and is there to the end.
TEST(ToChain, CountsGradientsFromTheirTasksOn) {
  const TaskGraph plain = *MakeModel("gpt-2", {.batch = 4});
  const ChainOptions options = {.memory_bytes = kMuchMemory, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  TaskGraph graph = plain;
  const std::int64_t gradients = testing::MakeGradientsInIteration(graph);
  const GraphChain made = *ToChain(graph, options);
  EXPECT_EQ(made.parts, expected.parts);
  EXPECT_EQ(made.chain.x, expected.chain.x);
  EXPECT_EQ(made.resident_bytes, expected.resident_bytes - gradients);
  EXPECT_EQ(ValidateChain(made.chain), absl::OkStatus());
  // B_i has all gradients of B_L, ..., B_i.
  const std::vector<std::int64_t> before = BackwardBytes(expected.chain);
  const std::vector<std::int64_t> after = BackwardBytes(made.chain);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_LE(after[i], before[i] + gradients);
    EXPECT_GE(made.chain.y[i + 1], expected.chain.y[i + 1]);
  }
  EXPECT_GE(after.front(), gradients);
  EXPECT_GE(made.chain.y[1], gradients / 2);
  EXPECT_LT(after.back(), before.back() + gradients / 2);
}

// A task that counts batches need not run again, and one that changes an activation may not.
TEST(ToChain, LeavesOutTasksThatUpdateWhatStays) {
  const TaskGraph plain = *MakeModel("gpt-2", {.batch = 4});
  const ChainOptions options = {.memory_bytes = kMuchMemory, .recomputation = true};
  const GraphChain expected = *ToChain(plain, options);
  TaskGraph graph = plain;
  const std::size_t count = graph.data.size();
  graph.data.push_back({.name = "batches",
                        .bytes = 1 << 20,
                        .kind = DataKind::kInput,
                        .before = DataHome::kDevice,
                        .after = DataHome::kDevice});
  GraphTask add;
  add.name = "add";
  add.updates = {count};
  add.algorithms = {{"only", 0, 0}};
  const std::size_t middle = testing::FirstOf(plain, TaskPhase::kBackward) / 2;
  graph.tasks.insert(graph.tasks.begin() + static_cast<std::ptrdiff_t>(middle), add);
  const GraphChain made = *ToChain(graph, options);
  EXPECT_EQ(made.chain.runs_once, std::vector<std::size_t>{});
  EXPECT_EQ(made.resident_bytes, expected.resident_bytes + (1 << 20));
  EXPECT_EQ(ChainPeak(made.chain), ChainPeak(expected.chain));
  // A task that reads it before would read another value.
  graph.tasks[middle - 1].reads.push_back(count);
  EXPECT_EQ(ToChain(graph, options)->chain.runs_once.size(), 1);
  graph.tasks[middle - 1].reads.pop_back();
  graph.tasks[middle].updates.push_back(graph.tasks[middle - 1].writes.front());
  EXPECT_FALSE(ToChain(graph, options)->chain.runs_once.empty());
}

// A network is cut only where the tensor between the parts is kept for backward tasks.
TEST(ToChain, CutsNetworksForRecomputation) {
  for (const char* name : {"resnet-50", "gpt-2"}) {
    SCOPED_TRACE(name);
    const TaskGraph graph = *MakeModel(name, {.batch = 2});
    const GraphChain plain = *ToChain(graph, {.memory_bytes = kMuchMemory});
    const GraphChain made = *ToChain(graph, {.memory_bytes = kMuchMemory, .recomputation = true});
    EXPECT_TRUE(plain.chain.output.empty());
    EXPECT_TRUE(ValidateChain(made.chain).ok()) << ValidateChain(made.chain);
    EXPECT_GT(made.parts.size(), 5);
    EXPECT_LE(made.parts.size(), plain.parts.size());
    EXPECT_GE(ChainPeak(made.chain) + made.resident_bytes,
              ChainPeak(plain.chain) + plain.resident_bytes);
    for (std::size_t i = 1; i < made.outputs.size(); ++i) {
      if (made.outputs[i] == GraphChain::kNoOutput) continue;
      const std::vector<std::size_t>& data = made.activations[i];
      EXPECT_NE(std::find(data.begin(), data.end(), made.outputs[i]), data.end());
    }
  }
}

// A sum that no backward task reads is kept where that saves more than it takes.
TEST(ToChain, CutsAtSumsThatForwardTasksAloneRead) {
  constexpr std::size_t kBlocks = 8;
  const ChainOptions options = {
      .memory_bytes = kMuchMemory, .link_bytes_per_second = 1, .recomputation = true};
  const TaskGraph graph = testing::ResidualGraph(kBlocks, 1 << 20, 16 << 20);
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const GraphChain made = *ToChain(graph, options);
  ASSERT_TRUE(ValidateChain(made.chain).ok()) << ValidateChain(made.chain);
  ASSERT_GE(made.parts.size(), kBlocks);
  EXPECT_EQ(made.chain.runs_once, std::vector<std::size_t>{});
  for (std::size_t k = 1; k < kBlocks; ++k) {
    EXPECT_EQ(graph.data[made.outputs[k]].name, absl::StrCat("sum ", k));
    EXPECT_EQ(made.chain.output[k], 1 << 20);
    EXPECT_EQ(made.chain.x[k], (1 + 2 + 16) << 20);
  }
  // Here only two blocks together save four times the bytes of a sum.
  const TaskGraph large = testing::ResidualGraph(kBlocks, 16 << 20, 1 << 20);
  EXPECT_EQ(ToChain(large, options)->parts.size(), kBlocks / 2);
}

}  // namespace
}  // namespace tidepool
