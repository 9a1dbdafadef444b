// SPDX-License-Identifier: Apache-2.0
// Simulates one mode after the other and keeps the fastest.
#include "policies/training/layerwise/mode_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "policies/training/layerwise/part_search.h"

namespace tidepool::layerwise {
namespace {

std::vector<std::int64_t> WorkspacesOf(const TaskGraph& graph) {
  std::vector<std::int64_t> workspaces = {kLeastWorkspace};
  for (const GraphTask& task : graph.tasks) {
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      workspaces.push_back(algorithm.workspace_bytes);
    }
  }
  std::sort(workspaces.begin(), workspaces.end());
  workspaces.erase(std::unique(workspaces.begin(), workspaces.end()), workspaces.end());
  return workspaces;
}

std::vector<LayerwiseMode> ModesOf(const LayerwiseMode& mode) {
  LayerwiseMode stays = mode;
  stays.offloads = false;
  std::vector<LayerwiseMode> modes = {stays};
  if (!mode.offloads) return modes;
  for (const OffloadSet set :
       {OffloadSet::kAlternateConvolutions, OffloadSet::kConvolutions, OffloadSet::kAll}) {
    modes.push_back(mode);
    modes.back().set = set;
  }
  return modes;
}

class ModeSearch {
 public:
  ModeSearch(const TaskGraph& graph, const Layers& layers, const ScheduleRequest& request)
      : graph_(graph), layers_(layers), request_(request), workspaces_(WorkspacesOf(graph)) {}

  absl::Status Try(const LayerwiseMode& mode) {
    // Limits up to this one are known to fit, and limits from the next variable on not to.
    std::size_t fits = 0;
    std::size_t fails = workspaces_.size();
    absl::Status status = TryLimit(mode, workspaces_.size() - 1);
    if (!absl::IsResourceExhausted(status)) return status;
    status = TryLimit(mode, 0);
    if (!status.ok()) {
      if (!absl::IsResourceExhausted(status)) return status;
      last_error_ = status;
      return absl::OkStatus();
    }
    --fails;
    while (fails - fits > 1) {
      const std::size_t middle = fits + (fails - fits) / 2;
      status = TryLimit(mode, middle);
      if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
      (status.ok() ? fits : fails) = middle;
    }
    return absl::OkStatus();
  }

  absl::Status TryParts(const LayerwiseMode& mode) {
    return layerwise::TryParts(graph_, layers_, mode, request_, best_);
  }

  absl::StatusOr<LayerwiseMode> Best() const {
    if (!best_.has_value()) return last_error_;
    return best_->mode;
  }

 private:
  absl::Status TryLimit(LayerwiseMode mode, std::size_t limit) {
    const bool is_none = limit + 1 == workspaces_.size();
    mode.most_workspace = is_none ? kAnyWorkspace : workspaces_[limit];
    const absl::StatusOr<Timeline> timeline =
        Simulate(graph_, MakeLayerwise(graph_, layers_, mode), request_.machine, request_.placing);
    if (!timeline.ok()) return timeline.status();
    if (!best_.has_value() || timeline->seconds < best_->seconds) {
      best_ = TimedMode{mode, timeline->seconds};
    }
    return absl::OkStatus();
  }

  const TaskGraph& graph_;
  const Layers& layers_;
  const ScheduleRequest& request_;
  const std::vector<std::int64_t> workspaces_;  // ascending
  std::optional<TimedMode> best_;
  absl::Status last_error_;
};

}  // namespace

absl::StatusOr<LayerwiseMode> FindMode(const TaskGraph& graph, const Layers& layers,
                                       const LayerwiseMode& mode, const ScheduleRequest& request) {
  ModeSearch search(graph, layers, request);
  for (const LayerwiseMode& candidate : ModesOf(mode)) {
    if (absl::Status status = search.Try(candidate); !status.ok()) return status;
  }
  if (mode.offloads) {
    if (absl::Status status = search.TryParts(mode); !status.ok()) return status;
  }
  return search.Best();
}

}  // namespace tidepool::layerwise
