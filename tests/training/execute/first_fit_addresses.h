// SPDX-License-Identifier: Apache-2.0
// Gives the schedule of a pool fixed addresses: each allocation takes the lowest free range at its
// step, and an offload gives its memory back at once.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_FIRST_FIT_ADDRESSES_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_FIRST_FIT_ADDRESSES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tidepool/training/schedule.h"

namespace tidepool::testing {

class FirstFitAddresses {
 public:
  explicit FirstFitAddresses(const TaskGraph& graph)
      : graph_(graph), offsets_(graph.data.size(), -1) {}

  // Returns the schedule. May be called once.
  Schedule Fix(const Schedule& pool) {
    Schedule fixed = pool;
    fixed.memory = ScheduleMemory::kFixed;
    fixed.alignment = kAlignment;
    fixed.steps.clear();
    for (ScheduleStep step : pool.steps) {
      if (step.kind == StepKind::kDrop) continue;
      SetOffset(step);
      fixed.steps.push_back(step);
      if (step.kind == StepKind::kFree) Give(step.index);
      if (step.kind != StepKind::kOffload) continue;
      Give(step.index);
      fixed.steps.push_back({.kind = StepKind::kDrop, .index = step.index});
    }
    return fixed;
  }

  // Returns the highest end of any range so far.
  std::int64_t top() const { return top_; }

 private:
  static constexpr std::int64_t kAlignment = 512;

  void SetOffset(ScheduleStep& step) {
    if (step.kind == StepKind::kRun) {
      const std::int64_t bytes =
          graph_.tasks[step.index].algorithms[step.algorithm].workspace_bytes;
      if (bytes > 0) step.offset = Find(bytes);
    }
    if (step.kind != StepKind::kAllocate && step.kind != StepKind::kPrefetch) return;
    step.offset = offsets_[step.index] = Find(graph_.data[step.index].bytes);
    live_[step.offset] = step.offset + Rounded(graph_.data[step.index].bytes);
  }
  void Give(std::size_t data) { live_.erase(offsets_[data]); }

  static std::int64_t Rounded(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::int64_t Find(std::int64_t bytes) {
    std::int64_t offset = 0;
    for (const auto& [begin, end] : live_) {
      if (begin - offset >= Rounded(bytes)) break;
      offset = end;
    }
    top_ = std::max(top_, offset + Rounded(bytes));
    return offset;
  }

  const TaskGraph& graph_;
  std::vector<std::int64_t> offsets_;          // by data
  std::map<std::int64_t, std::int64_t> live_;  // ends by begins
  std::int64_t top_ = 0;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_FIRST_FIT_ADDRESSES_H_
