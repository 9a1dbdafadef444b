// SPDX-License-Identifier: Apache-2.0
// Random graphs, valid and broken, against the slow model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/training/graph/random_graph.h"
#include "tests/training/graph/slow_graph.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const TaskGraph& graph) {
  std::vector<std::string> names;
  for (const GraphTask& task : graph.tasks) names.push_back(task.name);
  return names;
}

TEST(GraphProperty, WhatIsMadeValidIsValid) {
  testing::RandomGraphs random(1);
  for (int i = 0; i < 500; ++i) {
    const TaskGraph graph = random.Valid(1 + random.Below(20));
    ASSERT_TRUE(testing::SlowIsValid(graph));
    ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph) << GraphJson(graph);
  }
}

TEST(GraphProperty, ValidationIsThatOfTheSlowModel) {
  testing::RandomGraphs random(2);
  int valid = 0;
  int broken = 0;
  for (int i = 0; i < 20'000; ++i) {
    TaskGraph graph = random.Valid(1 + random.Below(8));
    for (std::size_t changes = 1 + random.Below(2); changes > 0; --changes) random.Change(graph);
    const absl::Status status = ValidateGraph(graph);
    ASSERT_EQ(status.ok(), testing::SlowIsValid(graph)) << status << i;
    if (!status.ok()) {
      ASSERT_THAT(std::string(status.message()), HasSubstr("expected"));
    }
    ++(status.ok() ? valid : broken);
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(broken, 1000);
}

TEST(GraphProperty, OrderIsThatOfTheSlowModel) {
  testing::RandomGraphs random(3);
  int sorted = 0;
  int cycles = 0;
  for (int i = 0; i < 5'000; ++i) {
    TaskGraph graph = random.Valid(1 + random.Below(12));
    random.Shuffle(graph);
    const TaskGraph before = graph;
    const auto expected = testing::SlowOrder(graph);
    const absl::Status status = SortTasks(graph);
    ASSERT_EQ(status.ok(), expected.has_value()) << status;
    if (status.ok()) {
      ASSERT_EQ(NamesOf(graph), *expected);
    } else {
      ASSERT_EQ(graph, before);
      ASSERT_THAT(std::string(status.message()), HasSubstr("circle"));
    }
    ++(status.ok() ? sorted : cycles);
  }
  EXPECT_GT(sorted, 1000);
  EXPECT_GT(cycles, 100);
}

TEST(GraphProperty, SortingWhatIsSortedChangesNothing) {
  testing::RandomGraphs random(4);
  for (int i = 0; i < 500; ++i) {
    const TaskGraph graph = random.Valid(1 + random.Below(30));
    TaskGraph again = graph;
    ASSERT_TRUE(SortTasks(again).ok());
    ASSERT_EQ(again, graph);
  }
}

TEST(GraphProperty, JsonReadsAsWhatWasWritten) {
  testing::RandomGraphs random(5);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t tasks = 1 + random.Below(30);
    const TaskGraph graph = i % 2 == 0 ? random.Valid(tasks) : random.ValidVersion2(tasks);
    ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
    const std::string json = GraphJson(graph);
    const absl::StatusOr<TaskGraph> again = ParseGraph(json, "again");
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, graph);
    ASSERT_EQ(GraphJson(*again), json);
  }
}

}  // namespace
}  // namespace tidepool
