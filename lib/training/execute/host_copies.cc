// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/host_copies.h"

#include <algorithm>

#include "lib/base/arithmetic.h"
#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/steps/data_places.h"

namespace tidepool::execute {
namespace {

// Copies begin at such multiples, as allocations of devices do.
constexpr std::int64_t kCopyAlignment = 512;
constexpr std::int64_t kNoPlace = -1;
constexpr std::int64_t kNeedsPlace = 0;

std::int64_t MostBytes(absl::Span<const TaskGraph> graphs, std::size_t data) {
  std::int64_t most = 0;
  for (const TaskGraph& graph : graphs) most = std::max(most, graph.data[data].bytes);
  return most;
}

}  // namespace

HostCopies::HostCopies(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                       const Program& program, bool host_compresses)
    : graphs_(graphs),
      devices_(schedule.devices),
      offsets_((schedule.devices + 1) * graphs.front().data.size(), kNoPlace) {
  std::vector<bool> is_compressed(offsets_.size());
  for (const ProgramOperation& operation : program.operations) {
    const ScheduleStep& step = schedule.steps[operation.step];
    const std::size_t device = step.device;
    if (operation.kind != ProgramOperation::Kind::kTask) {
      const std::size_t copy = Of(device, operation.index);
      if (step.kind == StepKind::kOffload) {
        is_compressed[copy] = host_compresses && step.density >= 0;
      }
      if (!is_compressed[copy]) offsets_[copy] = kNeedsPlace;
    } else if (device == kHostDevice) {
      NeedTask(graphs.front().tasks[operation.index]);
    }
  }
  for (std::size_t copy = 0; copy < offsets_.size(); ++copy) {
    if (IsHome(copy)) Place(copy);
  }
  home_bytes_ = bytes_;
  for (std::size_t copy = 0; copy < offsets_.size(); ++copy) {
    if (!IsHome(copy)) Place(copy);
  }
}

void HostCopies::Place(std::size_t copy) {
  if (offsets_[copy] == kNoPlace) return;
  offsets_[copy] = bytes_;
  const std::int64_t end = bytes_ + MostBytes(graphs_, copy % graphs_.front().data.size());
  bytes_ = RoundUp(end, kCopyAlignment);
}

bool HostCopies::IsHome(std::size_t copy) const {
  const GraphData& data = graphs_.front().data[copy % graphs_.front().data.size()];
  return data.before == DataHome::kHost && data.kind != DataKind::kInput;
}

bool HostCopies::HasHomesOf(const HostCopies& other) const {
  for (std::size_t copy = 0; copy < offsets_.size(); ++copy) {
    if (IsHome(copy) && offsets_[copy] != other.offsets_[copy]) return false;
  }
  return true;
}

void HostCopies::NeedTask(const GraphTask& task) {
  for (const std::size_t data : graph::ChangesOf(task))
    offsets_[Of(kHostDevice, data)] = kNeedsPlace;
  for (const std::size_t data : task.reads) {
    if (graphs_.front().data[data].before != DataHome::kHost) continue;
    for (std::size_t i = 0; i < devices_; ++i) offsets_[Of(i, data)] = kNeedsPlace;
  }
}

std::size_t HostCopies::Of(std::size_t device, std::size_t data) const {
  const bool is_of_host = device == kHostDevice || schedule::IsShared(graphs_.front().data[data]);
  return (is_of_host ? devices_ : device) * graphs_.front().data.size() + data;
}

std::vector<std::size_t> HostCopies::AllOf(std::size_t data) const {
  std::vector<std::size_t> copies;
  if (!schedule::IsShared(graphs_.front().data[data])) {
    for (std::size_t device = 0; device < devices_; ++device) copies.push_back(Of(device, data));
  }
  copies.push_back(Of(kHostDevice, data));
  return copies;
}

}  // namespace tidepool::execute
