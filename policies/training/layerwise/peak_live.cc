// SPDX-License-Identifier: Apache-2.0
// Sums the live bytes of a schedule, step by step.
#include "policies/training/layerwise/peak_live.h"

#include <algorithm>
#include <vector>

#include "lib/base/arithmetic.h"

namespace tidepool::layerwise {
namespace {

class LiveBytes {
 public:
  LiveBytes(const TaskGraph& graph, std::int64_t alignment)
      : graph_(graph), alignment_(alignment), are_on_device_(graph.data.size()) {}

  void Perform(const ScheduleStep& step) {
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch:
        return SetOnDevice(step.index, true);
      case StepKind::kFree:
      case StepKind::kOffload:
      case StepKind::kDrop:
        return SetOnDevice(step.index, false);
      case StepKind::kRun:
        return NotePeak(
            Aligned(graph_.tasks[step.index].algorithms[step.algorithm].workspace_bytes));
      case StepKind::kSynchronize:
      case StepKind::kReceive:  // not in a pool's schedule, and so is the next
      case StepKind::kAdd:
        return;
    }
  }

  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t Aligned(std::int64_t bytes) const { return AlignUp(bytes, alignment_); }

  void SetOnDevice(std::size_t data, bool is_on_device) {
    if (are_on_device_[data] == is_on_device) return;
    are_on_device_[data] = is_on_device;
    const std::int64_t bytes = Aligned(graph_.data[data].bytes);
    live_ += is_on_device ? bytes : -bytes;
    NotePeak(0);
  }

  void NotePeak(std::int64_t more) { peak_ = std::max(peak_, live_ + more); }

  const TaskGraph& graph_;
  const std::int64_t alignment_;
  std::vector<bool> are_on_device_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

std::int64_t PeakLive(const TaskGraph& graph, const Schedule& schedule, std::int64_t alignment) {
  LiveBytes live(graph, alignment);
  for (const ScheduleStep& step : schedule.steps) live.Perform(step);
  return live.peak();
}

}  // namespace tidepool::layerwise
