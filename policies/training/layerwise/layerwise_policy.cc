// SPDX-License-Identifier: Apache-2.0
// Checks the options of layerwise policies, chooses their mode, and makes the schedule. The dynamic
// mode is the fastest of those that fit: each is simulated.
#include "policies/training/layerwise/layerwise_policy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/layerwise/compression_choice.h"
#include "policies/training/layerwise/layers.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/layerwise/part_search.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule_request.h"

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

// Returns `mode` with the offload set and the limit of workspaces that give the fastest iteration
// on the machine of the request, as the simulator predicts. (Rhu et al., MICRO 2016, section III-C,
// profile a few iterations instead.) Where the fastest algorithms do not fit, the limit is lowered
// as little as possible. Shares of the sets are tried too (part_search.h). A mode without offloads
// stays one. ResourceExhausted, for the mode that needs least, when no mode fits.
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

struct LayerwisePolicy {
  std::string_view name;
  bool offloads;
  bool synchronizes;
};

// Weights stay on the device under all of these policies, and so do their gradients and the state
// of the optimizer, where these exist before and after an iteration.
bool Stays(const GraphData& data) { return ExistsBefore(data) && ExistsAfter(data); }

absl::Status CheckTasksFit(const TaskGraph& graph, const ScheduleRequest& request) {
  const std::int64_t memory = request.machine.devices.front().memory_bytes;
  const std::int64_t alignment = request.placing.alignment;
  std::int64_t weights = 0;
  for (const GraphData& data : graph.data) {
    if (Stays(data)) weights += RoundUp(data.bytes, alignment);
  }
  for (const GraphTask& task : graph.tasks) {
    std::int64_t bytes = weights + RoundUp(task.algorithms.front().workspace_bytes, alignment);
    for (const std::size_t data : graph::UsesOf(task)) {
      if (Stays(graph.data[data])) continue;
      bytes += RoundUp(graph.data[data].bytes, alignment);
    }
    if (bytes <= memory) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("task ", requests::InQuotes(task.name), " alone needs ",
                     text::ExactSize(bytes), ", with the weights of the graph, ",
                     text::Size(weights), "; the memory has ", text::ExactSize(memory)));
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerwiseMode> ModeOf(const LayerwisePolicy& policy, const TaskGraph& graph,
                                     const Layers& layers, const LayerwiseOptions& options,
                                     const ScheduleRequest& request) {
  LayerwiseMode mode = {.offloads = policy.offloads,
                        .set = options.set,
                        .order = options.order,
                        .synchronizes = policy.synchronizes};
  if (options.set == OffloadSet::kDynamic) return FindMode(graph, layers, mode, request);
  mode.most_workspace =
      options.algorithms == AlgorithmChoice::kLeastMemory ? kLeastWorkspace : kAnyWorkspace;
  return mode;
}

// Returns the text of a mode in the papers' notation: "vdnn++ conv(p)".
std::string DescriptionOf(const LayerwisePolicy& policy, const LayerwiseMode& mode) {
  std::string text(policy.name);
  if (policy.offloads) {
    const std::string_view set = mode.offloads ? requests::NameOf(mode.set) : "none";
    if (mode.parts < kAllParts) absl::StrAppend(&text, " ", mode.parts, "/", kAllParts, " of");
    absl::StrAppend(&text, " ", std::string(set));
  }
  return text + TextOfWorkspaces(mode.most_workspace);
}

absl::StatusOr<Schedule> Make(const LayerwisePolicy& policy, const TaskGraph& graph,
                              const ScheduleRequest& request) {
  const absl::StatusOr<LayerwiseOptions> options = requests::OptionsOf<LayerwiseOptions>(request);
  if (!options.ok()) return options.status();
  if (absl::Status status = CheckDensities(graph, options->densities); !status.ok()) return status;
  if (absl::Status status = CheckTasksFit(graph, request); !status.ok()) return status;
  const Layers layers = LayersOf(graph);
  const absl::StatusOr<LayerwiseMode> mode = ModeOf(policy, graph, layers, *options, request);
  if (!mode.ok()) return mode.status();
  Schedule schedule = MakeLayerwise(graph, layers, *mode);
  schedule.policy = DescriptionOf(policy, *mode);
  if (options->densities.empty() || !mode->offloads) return schedule;
  if (absl::Status status = ChooseCompression(graph, options->densities, {}, request.machine,
                                              request.placing, schedule);
      !status.ok()) {
    return status;
  }
  return schedule;
}

}  // namespace

absl::StatusOr<Schedule> MakePooled(std::string_view policy, const TaskGraph& graph,
                                    const ScheduleRequest& request) {
  return Make({.name = policy, .offloads = policy != "none", .synchronizes = policy == "vdnn"},
              graph, request);
}

}  // namespace tidepool::layerwise
