// SPDX-License-Identifier: Apache-2.0
// A graph of a few tasks, and short names for steps, for examples.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_SMALL_SCHEDULE_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_SMALL_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tidepool/training/schedule.h"

namespace tidepool::testing {

// Data of the small graph.
inline constexpr std::size_t kBatch = 0;
inline constexpr std::size_t kKernel = 1;
inline constexpr std::size_t kMap = 2;
inline constexpr std::size_t kScore = 3;
inline constexpr std::size_t kSlope = 4;
inline constexpr std::size_t kStep = 5;
inline constexpr std::size_t kConv = 0;
inline constexpr std::size_t kLoss = 1;
inline constexpr std::size_t kBack = 2;
inline constexpr std::size_t kUpdate = 3;

// A convolution, a loss, the backward pass and the update of the kernel: 1, 2, 4 and 8 seconds.
// The convolution has a quicker algorithm of half a second with a workspace of 2,000 bytes.
inline TaskGraph SmallGraph() {
  TaskGraph graph;
  graph.name = "small";
  graph.batch = 1;
  graph.data = {{"batch", 1024, DataKind::kInput},    {"kernel", 512, DataKind::kWeight},
                {"map", 4096, DataKind::kActivation}, {"score", 1, DataKind::kActivation},
                {"slope", 600, DataKind::kGradient},  {"step", 512, DataKind::kWeightGradient}};
  graph.tasks = {
      {.name = "conv",
       .layer = "conv",
       .operation = "conv",
       .phase = TaskPhase::kForward,
       .reads = {kBatch, kKernel},
       .writes = {kMap},
       .algorithms = {{"small", 1, 0}, {"quick", 0.5, 2000}}},
      {.name = "loss", .reads = {kMap}, .writes = {kScore}, .algorithms = {{"only", 2, 0}}},
      {.name = "back",
       .phase = TaskPhase::kBackward,
       .reads = {kBatch, kMap, kScore},
       .writes = {kSlope, kStep},
       .algorithms = {{"only", 4, 512}}},
      {.name = "update",
       .phase = TaskPhase::kUpdate,
       .reads = {kStep, kSlope},
       .updates = {kKernel},
       .algorithms = {{"only", 8, 0}}}};
  return graph;
}

inline ScheduleStep Allocate(std::size_t data, Hint hint = Hint::kResident) {
  return {.kind = StepKind::kAllocate, .index = data, .hint = hint};
}
inline ScheduleStep Free(std::size_t data) { return {.kind = StepKind::kFree, .index = data}; }
inline ScheduleStep RunTask(std::size_t task, std::size_t algorithm = 0) {
  return {.kind = StepKind::kRun, .index = task, .algorithm = algorithm};
}
inline ScheduleStep Offload(std::size_t data, double density = -1) {
  return {.kind = StepKind::kOffload, .index = data, .density = density};
}
inline ScheduleStep Prefetch(std::size_t data, Hint hint = Hint::kResident) {
  return {.kind = StepKind::kPrefetch, .index = data, .hint = hint};
}
// Drops some bytes of a datum, or all of them.
inline ScheduleStep Drop(std::size_t data, std::int64_t begin = 0, std::int64_t end = -1) {
  return {.kind = StepKind::kDrop, .index = data, .begin = begin, .end = end};
}
inline ScheduleStep Synchronize() { return {.kind = StepKind::kSynchronize}; }

inline Schedule Of(const TaskGraph& graph, std::vector<ScheduleStep> steps) {
  return {"example", GraphFingerprint(graph), std::move(steps)};
}

// Everything stays.
inline std::vector<ScheduleStep> PlainSteps() {
  return {Allocate(kKernel), Allocate(kBatch), Allocate(kMap),   RunTask(kConv), Allocate(kScore),
          RunTask(kLoss),    Allocate(kSlope), Allocate(kStep),  RunTask(kBack), Free(kBatch),
          Free(kMap),        Free(kScore),     RunTask(kUpdate), Free(kSlope),   Free(kStep)};
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_SMALL_SCHEDULE_H_
