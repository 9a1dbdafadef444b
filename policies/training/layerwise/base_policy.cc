// SPDX-License-Identifier: Apache-2.0
// Chooses the workspaces of the base manager, and refuses a memory that is too small.
#include "policies/training/layerwise/base_policy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "policies/training/layerwise/base_manager.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"

namespace tidepool::layerwise {
namespace {

// Returns the limit of workspaces where the memory has `room` bytes for one.
std::int64_t MostWorkspaceOf(const LayerwiseOptions& options, std::int64_t room) {
  if (options.set == OffloadSet::kDynamic) return std::max<std::int64_t>(room, 0);
  return options.algorithms == AlgorithmChoice::kLeastMemory ? kLeastWorkspace : kAnyWorkspace;
}

}  // namespace

absl::StatusOr<Schedule> MakeBase(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  const absl::StatusOr<LayerwiseOptions> options = requests::OptionsOf<LayerwiseOptions>(request);
  if (!options.ok()) return options.status();
  const std::int64_t alignment = request.placing.alignment;
  const std::int64_t memory = request.machine.devices.front().memory_bytes & -alignment;
  const BaseAddresses addresses = PlaceBase(graph, alignment);
  const std::int64_t most_workspace =
      MostWorkspaceOf(*options, memory - addresses.workspace_offset);
  BaseSchedule base = ScheduleBase(graph, addresses, alignment, most_workspace);
  if (base.memory_bytes > memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the data of the graph, ", text::Size(addresses.workspace_offset),
                     ", and a workspace need ", text::ExactSize(base.memory_bytes),
                     "; the memory has ", text::ExactSize(memory)));
  }
  base.schedule.policy = absl::StrCat("base", TextOfWorkspaces(most_workspace));
  return std::move(base.schedule);
}

}  // namespace tidepool::layerwise
