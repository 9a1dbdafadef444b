// SPDX-License-Identifier: Apache-2.0
// Checks the options of layerwise policies, chooses their mode, and makes the schedule.
#include "policies/training/layerwise/layerwise_policy.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/layerwise/compression_choice.h"
#include "policies/training/layerwise/layers.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/layerwise/mode_search.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"

namespace tidepool::layerwise {
namespace {

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
