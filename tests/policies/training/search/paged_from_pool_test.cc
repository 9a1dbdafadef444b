// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/paged_from_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tidepool/training/program.h"

namespace tidepool::search {
namespace {

// Data is made, leaves, and comes back after a task with a workspace.
TaskGraph WithWorkspace(std::int64_t workspace_bytes) {
  TaskGraph graph;
  graph.name = "three tasks";
  graph.data = {{.name = "x", .bytes = 60}, {.name = "y", .bytes = 10}};
  const auto task_of = [](const char* name, std::int64_t workspace) {
    GraphTask task;
    task.name = name;
    task.algorithms = {{.name = "a", .seconds = 1, .workspace_bytes = workspace}};
    return task;
  };
  graph.tasks = {task_of("make", 0), task_of("work", workspace_bytes), task_of("use", 0)};
  graph.tasks[0].writes = {0};
  graph.tasks[1].writes = {1};
  graph.tasks[2].reads = {0, 1};
  return graph;
}

Schedule OfPool(const TaskGraph& graph) {
  return {.policy = "vdnn++",
          .fingerprint = GraphFingerprint(graph),
          .steps = {{.kind = StepKind::kAllocate, .index = 0},
                    {.kind = StepKind::kRun, .index = 0},
                    {.kind = StepKind::kOffload, .index = 0},
                    {.kind = StepKind::kDrop, .index = 0},
                    {.kind = StepKind::kAllocate, .index = 1},
                    {.kind = StepKind::kRun, .index = 1},
                    {.kind = StepKind::kPrefetch, .index = 0},
                    {.kind = StepKind::kRun, .index = 2},
                    {.kind = StepKind::kFree, .index = 0},
                    {.kind = StepKind::kFree, .index = 1}}};
}

std::size_t Drops(const Schedule& schedule) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ScheduleStep& step) { return step.kind == StepKind::kDrop; }));
}

// The program keeps to the memory, in which the workspace alone needs the room of the sent data.
TEST(PagedFromPool, DropsDataBeforeTheRunWhoseWorkspaceNeedsItsRoom) {
  for (const std::int64_t workspace : {30, 31, 90}) {
    const TaskGraph graph = WithWorkspace(workspace);
    Machine machine;
    machine.devices.front().memory_bytes = 100;
    const absl::StatusOr<Schedule> paged = PagedFromPool(graph, OfPool(graph), 100, 1);
    ASSERT_TRUE(paged.ok()) << paged.status();
    EXPECT_EQ(ValidateSchedule(graph, *paged), absl::OkStatus());
    const absl::StatusOr<Program> program = LowerSchedule({&graph, 1}, *paged, machine);
    EXPECT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(Drops(*paged), workspace > 30 ? 1U : 0U);
  }
  const TaskGraph graph = WithWorkspace(91);
  EXPECT_EQ(PagedFromPool(graph, OfPool(graph), 100, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tidepool::search
