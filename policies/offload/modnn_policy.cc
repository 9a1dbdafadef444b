// SPDX-License-Identifier: Apache-2.0
#include "policies/offload/modnn_policy.h"

#include <utility>

#include "policies/offload/in_pages.h"
#include "policies/offload/modnn/modnn.h"
#include "policies/offload/policy_options.h"
#include "tidepool/schedule/sub_batch.h"

namespace tidepool::offload_policies {

absl::StatusOr<Schedule> MakeModnn(std::string_view /*policy*/, const TaskGraph& graph,
                                   const ScheduleRequest& request) {
  const absl::StatusOr<ModnnOptions> options = OptionsOf<ModnnOptions>(request);
  if (!options.ok()) return options.status();
  const MachineDevice& device = request.machine.devices.front();
  absl::StatusOr<Schedule> schedule =
      modnn::Modnn(graph, {.memory_bytes = device.memory_bytes,
                           .alignment = request.alignment,
                           .link = request.machine.links[device.link],
                           .as_printed = options->as_printed});
  if (!schedule.ok() || request.memory != ScheduleMemory::kPaged) return schedule;
  return InPages(*std::move(schedule));
}

absl::StatusOr<std::int64_t> ChooseModnnSubBatch(const GraphFamily& family, std::int64_t batch,
                                                 const ScheduleRequest& request) {
  const absl::StatusOr<ModnnOptions> options = OptionsOf<ModnnOptions>(request);
  if (!options.ok()) return options.status();
  const absl::StatusOr<SubBatchChoice> choice =
      ChooseSubBatch(family, batch, request.machine.devices.front().memory_bytes, request.alignment,
                     options->sub_batch);
  if (!choice.ok()) return choice.status();
  return choice->sub_batch;
}

}  // namespace tidepool::offload_policies
