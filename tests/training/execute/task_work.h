// SPDX-License-Identifier: Apache-2.0
// Tasks with real work: the bytes that a task reads determine the bytes that it writes. So a hash
// for each task shows whether it read the right bytes.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_TASK_WORK_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_TASK_WORK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/copies/offload/patterns.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}
inline std::uint64_t HashOf(std::uint64_t hash, const void* data, std::int64_t bytes) {
  const auto* const memory = static_cast<const std::uint8_t*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) hash = Mix(hash, memory[i]);
  return hash;
}

// Not checked by ThreadSanitizer: a copy out that a prefetch cancelled may still read the bytes
// that are changed here, and its result is not used.
[[gnu::no_sanitize("thread")]] inline void Change(void* data, std::int64_t bytes,
                                                  std::uint64_t seed) {
  auto* const memory = static_cast<std::uint8_t*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) memory[i] ^= PatternByte(seed, i);
}

// Performs the work of a task: the hash of all bytes that it reads and updates determines the bytes
// that it writes and the changes of its updates.
inline std::uint64_t DoTask(const TaskGraph& graph, const TaskLaunch& launch) {
  const GraphTask& task = graph.tasks[launch.task];
  std::uint64_t hash = launch.task;
  for (std::size_t i = 0; i < task.reads.size(); ++i) {
    hash = HashOf(hash, launch.reads[i], graph.data[task.reads[i]].bytes);
  }
  for (std::size_t i = 0; i < task.updates.size(); ++i) {
    hash = HashOf(hash, launch.updates[i], graph.data[task.updates[i]].bytes);
  }
  for (std::size_t i = 0; i < task.writes.size(); ++i) {
    WritePattern(launch.writes[i], graph.data[task.writes[i]].bytes, Mix(hash, i));
  }
  for (std::size_t i = 0; i < task.updates.size(); ++i) {
    Change(launch.updates[i], graph.data[task.updates[i]].bytes, Mix(hash, 100 + i));
  }
  const std::int64_t bytes = task.algorithms[launch.algorithm].workspace_bytes;
  if (bytes > 0) std::memset(launch.workspace, 0xee, static_cast<std::size_t>(bytes));
  return hash;
}

// Returns the hashes of tasks, computed in memory in the order of the schedule, for some
// iterations.
inline std::vector<std::uint64_t> PlainRun(const TaskGraph& graph, const Schedule& schedule,
                                           int iterations) {
  std::vector<std::vector<std::uint8_t>> data;
  for (const GraphData& datum : graph.data) {
    data.emplace_back(static_cast<std::size_t>(datum.bytes));
  }
  const auto fill = [&](std::size_t i) {
    WritePattern(data[i].data(), graph.data[i].bytes, 1000 + i);
  };
  for (std::size_t i = 0; i < data.size(); ++i) fill(i);
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint8_t> workspace(1 << 20);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (graph.data[i].kind == DataKind::kInput) fill(i);
    }
    std::vector<std::uint64_t> of_tasks(graph.tasks.size());
    for (const ScheduleStep& step : schedule.steps) {
      if (step.kind != StepKind::kRun) continue;
      TaskLaunch launch = {.task = step.index, .algorithm = step.algorithm, .stream = {}};
      const GraphTask& task = graph.tasks[step.index];
      for (const std::size_t i : task.reads) launch.reads.push_back(data[i].data());
      for (const std::size_t i : task.writes) launch.writes.push_back(data[i].data());
      for (const std::size_t i : task.updates) launch.updates.push_back(data[i].data());
      launch.workspace = workspace.data();
      of_tasks[step.index] = DoTask(graph, launch);
    }
    hashes.insert(hashes.end(), of_tasks.begin(), of_tasks.end());
  }
  return hashes;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_TASK_WORK_H_
