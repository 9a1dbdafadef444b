// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/modnn_policy.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "policies/training/modnn/modnn.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/requests/request_check.h"
#include "policies/training/rounds/leaving_rounds.h"
#include "policies/training/rounds/round_graph.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::modnn {

absl::StatusOr<Schedule> MakeModnn(std::string_view /*policy*/, const TaskGraph& graph,
                                   const ScheduleRequest& request) {
  const absl::StatusOr<ModnnOptions> options = requests::OptionsOf<ModnnOptions>(request);
  if (!options.ok()) return options.status();
  const MachineDevice& device = request.machine.devices.front();
  absl::StatusOr<Schedule> schedule =
      modnn::Modnn(graph, {.memory_bytes = device.memory_bytes,
                           .alignment = request.placing.alignment,
                           .link = request.machine.links[device.link],
                           .as_printed = options->as_printed});
  if (!schedule.ok() || request.memory != ScheduleMemory::kPaged) return schedule;
  return schedule::InPages(*std::move(schedule));
}

namespace {

// Returns the most samples, of a regular number, at which the largest task fits where weights leave
// too; 1 where it fits at no number, so that the policy tells the task.
absl::StatusOr<std::int64_t> LargestWithoutWeights(const GraphFamily& family, std::int64_t batch,
                                                   const ScheduleRequest& request) {
  const std::int64_t memory = request.machine.devices.front().memory_bytes;
  std::int64_t sub_batch = batch;
  while (sub_batch > 1) {
    const absl::StatusOr<TaskGraph> graph = GraphAt(family, sub_batch);
    if (!graph.ok()) return graph.status();
    if (LeastMemory(*graph, request.placing.alignment, StayingData::kNone).bytes <= memory) break;
    sub_batch = RegularSubBatch(sub_batch - 1);
  }
  return sub_batch;
}

}  // namespace

absl::StatusOr<std::int64_t> ChooseModnnSubBatch(const GraphFamily& family, std::int64_t batch,
                                                 const ScheduleRequest& request) {
  const absl::StatusOr<ModnnOptions> options = requests::OptionsOf<ModnnOptions>(request);
  if (!options.ok()) return options.status();
  const GraphFamily on_device =
      requests::UpdatesOnHost(request) ? rounds::WithoutUpdates(family) : family;
  const absl::StatusOr<SubBatchChoice> choice =
      ChooseSubBatch(on_device, batch, request.machine.devices.front().memory_bytes,
                     request.placing.alignment, options->sub_batch);
  if (choice.ok()) return choice->sub_batch;
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
  const bool may_leave = graph.ok() && request.devices == 1 && !requests::UpdatesOnHost(request) &&
                         rounds::WeightsMayLeave(*graph) &&
                         request.memory != ScheduleMemory::kPaged;
  if (!may_leave || !absl::IsResourceExhausted(choice.status())) return choice.status();
  return LargestWithoutWeights(family, batch, request);
}

}  // namespace tidepool::modnn
