// SPDX-License-Identifier: Apache-2.0
// Branch and bound over shares of offloaded data and limits of workspaces.
#include "policies/training/layerwise/part_search.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "policies/training/layerwise/peak_live.h"

namespace tidepool::layerwise {
namespace {

constexpr std::size_t kMostLimits = 8;

// Returns limits of workspaces in descending order, spread over the workspaces of the graph. The
// first is no limit, and the last the least one.
std::vector<std::int64_t> LimitsOf(const TaskGraph& graph) {
  std::vector<std::int64_t> workspaces = {kLeastWorkspace};
  for (const GraphTask& task : graph.tasks) {
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      workspaces.push_back(algorithm.workspace_bytes);
    }
  }
  std::sort(workspaces.begin(), workspaces.end(), std::greater<>());
  workspaces.erase(std::unique(workspaces.begin(), workspaces.end()), workspaces.end());
  workspaces.front() = kAnyWorkspace;
  if (workspaces.size() == 1) return workspaces;
  std::vector<std::int64_t> limits;
  const std::size_t count = std::min(workspaces.size(), kMostLimits);
  for (std::size_t i = 0; i < count; ++i) {
    limits.push_back(workspaces[i * (workspaces.size() - 1) / (count - 1)]);
  }
  return limits;
}

double ComputeSeconds(const TaskGraph& graph, std::int64_t most_workspace) {
  double seconds = 0;
  for (const GraphTask& task : graph.tasks) {
    seconds += task.algorithms[FastestAlgorithm(task, most_workspace)].seconds;
  }
  return seconds;
}

class PartSearch {
 public:
  PartSearch(const TaskGraph& graph, const Layers& layers, const ScheduleRequest& request,
             std::optional<TimedMode>& best)
      : graph_(graph), layers_(layers), request_(request), limits_(LimitsOf(graph)), best_(best) {
    for (const std::int64_t limit : limits_) {
      compute_seconds_.push_back(ComputeSeconds(graph, limit));
    }
  }

  absl::Status Search(const LayerwiseMode& mode) {
    std::vector<TimedMode> bounds = LowerBounds(mode);
    std::stable_sort(bounds.begin(), bounds.end(),
                     [](const TimedMode& a, const TimedMode& b) { return a.seconds < b.seconds; });
    for (const TimedMode& bound : bounds) {
      if (!CanImprove(bound.seconds)) break;
      if (absl::Status status = TryLimits(bound); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  bool CanImprove(double seconds) const { return !best_.has_value() || seconds < best_->seconds; }

  // Returns the modes that may fit with the least workspaces, each with the time of its copies.
  std::vector<TimedMode> LowerBounds(LayerwiseMode mode) const {
    std::vector<TimedMode> bounds;
    mode.most_workspace = limits_.back();
    for (const OffloadSet set : {OffloadSet::kConvolutions, OffloadSet::kAll}) {
      mode.set = set;
      for (mode.parts = 1; mode.parts < kAllParts; ++mode.parts) {
        const std::vector<std::int64_t> copies = CopiesOf(mode);
        const double seconds = LeastCopySeconds(copies);
        if (copies.empty() || !CanImprove(seconds)) continue;
        if (MayFit(MakeLayerwise(graph_, layers_, mode))) bounds.push_back({mode, seconds});
      }
    }
    return bounds;
  }

  // Returns the bytes of each datum that leaves.
  std::vector<std::int64_t> CopiesOf(const LayerwiseMode& mode) const {
    std::vector<std::int64_t> copies;
    for (const std::vector<std::size_t>& data : LeavingAfter(graph_, layers_, mode)) {
      for (const std::size_t one : data) copies.push_back(graph_.data[one].bytes);
    }
    return copies;
  }

  // Returns the time of all copies in the busier direction. The bound is 0 where the host may have
  // no room: data stays on the device then.
  double LeastCopySeconds(const std::vector<std::int64_t>& copies) const {
    const MachineLink& link = request_.machine.links[request_.machine.devices.front().link];
    std::int64_t bytes = 0;
    double out = 0;
    double in = 0;
    for (const std::int64_t copy : copies) {
      bytes += copy;
      out += link.latency_seconds + static_cast<double>(copy) / link.out_bytes_per_second;
      in += link.latency_seconds + static_cast<double>(copy) / link.in_bytes_per_second;
    }
    if (bytes > request_.machine.host.memory_bytes) return 0;
    return link.full_duplex ? std::max(out, in) : out + in;
  }

  bool MayFit(const Schedule& schedule) const {
    return PeakLive(graph_, schedule, request_.placing.alignment) <=
           request_.machine.devices.front().memory_bytes;
  }

  // Tries the largest limit of workspaces that fits: with less workspace no task is faster.
  absl::Status TryLimits(const TimedMode& bound) {
    LayerwiseMode mode = bound.mode;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      if (!CanImprove(std::max(bound.seconds, compute_seconds_[i]))) return absl::OkStatus();
      mode.most_workspace = limits_[i];
      const Schedule schedule = MakeLayerwise(graph_, layers_, mode);
      if (!MayFit(schedule)) continue;
      const absl::StatusOr<Timeline> timeline =
          Simulate(graph_, schedule, request_.machine, request_.placing);
      if (absl::IsResourceExhausted(timeline.status())) continue;
      if (!timeline.ok()) return timeline.status();
      if (CanImprove(timeline->seconds)) best_ = TimedMode{mode, timeline->seconds};
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  const TaskGraph& graph_;
  const Layers& layers_;
  const ScheduleRequest& request_;
  const std::vector<std::int64_t> limits_;
  std::vector<double> compute_seconds_;  // sum over all tasks, by limit
  std::optional<TimedMode>& best_;
};

}  // namespace

absl::Status TryParts(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode,
                      const ScheduleRequest& request, std::optional<TimedMode>& best) {
  return PartSearch(graph, layers, request, best).Search(mode);
}

}  // namespace tidepool::layerwise
