// SPDX-License-Identifier: Apache-2.0
// The first and the last users of data, against a search through all tasks.
#include "lib/training/graph/data_users.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/training/graph/random_graph.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {
namespace {

bool Uses(const GraphTask& task, std::size_t data) {
  const auto holds = [&](const std::vector<std::size_t>& list) {
    return std::count(list.begin(), list.end(), data) > 0;
  };
  return holds(task.reads) || holds(task.writes) || holds(task.updates);
}

TEST(DataUsers, AreThoseOfASearch) {
  testing::RandomGraphs random(1);
  for (int round = 0; round < 200; ++round) {
    TaskGraph graph = random.Valid(1 + random.Below(12));
    graph.data.push_back({.name = "unused"});
    const DataUsers users(graph);
    for (std::size_t data = 0; data < graph.data.size(); ++data) {
      for (std::size_t at = 0; at <= graph.tasks.size(); ++at) {
        std::size_t from = kNoTask;
        std::size_t before = kNoTask;
        for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
          if (!Uses(graph.tasks[i], data)) continue;
          if (i < at) before = i;
          if (i >= at && from == kNoTask) from = i;
        }
        ASSERT_EQ(users.FirstFrom(data, at), from) << "datum " << data << ", task " << at;
        ASSERT_EQ(users.LastBefore(data, at), before) << "datum " << data << ", task " << at;
      }
      ASSERT_EQ(users.First(data), users.FirstFrom(data, 0));
      ASSERT_EQ(users.Last(data), users.LastBefore(data, graph.tasks.size()));
    }
  }
}

TEST(WritersOf, AreNoTaskForDataThatExistsBefore) {
  TaskGraph graph;
  graph.data = {{.name = "input"}, {.name = "output"}};
  graph.tasks = {{.name = "a", .reads = {0}}, {.name = "b", .reads = {0}, .writes = {1}}};
  EXPECT_EQ(WritersOf(graph), (std::vector<std::size_t>{kNoTask, 1}));
}

}  // namespace
}  // namespace tidepool::graph
