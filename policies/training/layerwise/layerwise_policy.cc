// SPDX-License-Identifier: Apache-2.0
// Checks the options of layerwise policies, chooses their mode, and makes the schedule. The dynamic
// mode is the fastest of those that fit: each is simulated.
#include <algorithm>
#include <cstdint>
#include <functional>
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
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/layerwise/peak_live.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {
namespace {

struct TimedMode {
  LayerwiseMode mode;
  double seconds = 0;  // of an iteration
};

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

// Replaces `best` by the fastest mode that offloads a share of the convolutions' inputs or of all
// inputs, where that is faster than `best`. The other fields are those of `mode`.
//
// The same modes are tried for every memory: all numbers of parts, each with the largest of up to
// eight limits of workspaces that fits. The time of its copies and tasks bounds the time of a mode
// from below. Modes are tried in the order of that bound, and the search ends at the best time so
// far. A mode with more live bytes than the memory is not simulated. Errors are Simulate's.
// O(modes x steps), and a simulation for each mode that is tried.
absl::Status TryParts(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode,
                      const ScheduleRequest& request, std::optional<TimedMode>& best) {
  return PartSearch(graph, layers, request, best).Search(mode);
}

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
// as little as possible. Shares of the sets are tried too (TryParts). A mode without offloads
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
