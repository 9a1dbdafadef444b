// SPDX-License-Identifier: Apache-2.0
// Tests the graphs of micro-batches, and their chains.
#include "lib/training/chain/micro_batches.h"

#include <gtest/gtest.h>

#include "tests/training/chain/micro_batch_graphs.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using chain::MicroBatches;

constexpr std::size_t kCount = 3;

TaskGraph Plain() {
  TaskGraph plain = *MakeModel("gpt-2", {.batch = 4, .inputs = DataHome::kDevice});
  testing::MakeGradientsInIteration(plain);
  return plain;
}

GraphChain ChainOf(const TaskGraph& graph) {
  return *ToChain(graph, {.memory_bytes = kMuchMemory, .recomputation = true});
}

TEST(MicroBatches, OneIsTheGraph) {
  const TaskGraph plain = Plain();
  const MicroBatches one(plain);
  ASSERT_EQ(one.count(), 1);
  EXPECT_EQ(one.GraphOf(0), plain);
}

TEST(MicroBatches, HaveTheChainOfTheirTasks) {
  const TaskGraph plain = Plain();
  const GraphChain expected = ChainOf(plain);
  const TaskGraph graph = testing::WithMicroBatches(plain, kCount);
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const std::size_t update = testing::FirstOf(plain, TaskPhase::kUpdate);
  const MicroBatches micro_batches(graph);
  ASSERT_EQ(micro_batches.count(), kCount);
  std::size_t tasks = 0;
  for (std::size_t number = 0; number < kCount; ++number) {
    SCOPED_TRACE(number);
    const TaskGraph part = micro_batches.GraphOf(number);
    EXPECT_EQ(part.data.size(), graph.data.size());
    tasks += part.tasks.size();
    GraphChain made = ChainOf(part);
    EXPECT_EQ(made.chain.x, expected.chain.x);
    EXPECT_EQ(made.chain.output, expected.chain.output);
    EXPECT_EQ(made.chain.runs_once, expected.chain.runs_once);
    const std::size_t begin = made.parts.front().forward_begin;
    micro_batches.RenumberTasks(number, made);
    EXPECT_EQ(made.parts.front().forward_begin, begin + number * update);
    EXPECT_EQ(made.algorithms.size(), number * update + part.tasks.size());
  }
  EXPECT_EQ(tasks, graph.tasks.size());
}

// The first micro-batch makes the gradients, and they are there in the others.
TEST(MicroBatches, KeepWhatOthersNeed) {
  TaskGraph plain = Plain();
  const std::int64_t gradients = testing::MakeGradientsInIteration(plain);
  const TaskGraph graph = testing::WithMicroBatches(plain, kCount);
  const MicroBatches micro_batches(graph);
  std::int64_t inputs = 0;
  for (const GraphData& data : plain.data) {
    if (data.kind == DataKind::kInput) inputs += data.bytes;
  }
  const GraphChain first = ChainOf(micro_batches.GraphOf(0));
  const GraphChain second = ChainOf(micro_batches.GraphOf(1));
  const GraphChain last = ChainOf(micro_batches.GraphOf(2));
  EXPECT_GE(first.chain.y[1], gradients / 2);
  EXPECT_EQ(second.chain.y, last.chain.y);
  EXPECT_LT(last.chain.y[1], gradients / 2);
  EXPECT_EQ(second.resident_bytes, first.resident_bytes + gradients - inputs);
  EXPECT_EQ(last.resident_bytes, second.resident_bytes - inputs);
}

}  // namespace
}  // namespace tidepool
