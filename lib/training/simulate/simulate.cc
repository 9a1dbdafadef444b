// SPDX-License-Identifier: Apache-2.0
// Simulates schedules, and plans their memory where the placement needs a plan.
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/memory/blocks/geometry.h"
#include "lib/training/simulate/simulation.h"
#include "lib/training/simulate/timeline_options.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool {
namespace {

using simulate::Simulation;

constexpr std::array<std::string_view, 3> kStallReasonNames = {"data", "memory", "synchronize"};

Schedule WithoutSteps(const Schedule& schedule, const std::vector<bool>& are_left_out) {
  Schedule rest = {schedule.policy, schedule.fingerprint, {}};
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (!are_left_out[i]) rest.steps.push_back(schedule.steps[i]);
  }
  return rest;
}

// Returns the offloads that stay when device memory is plentiful. The result is nearly the same as
// with a plan, and takes a single simulation.
std::vector<bool> StaysWithPlenty(const TaskGraph& graph, const Schedule& schedule, Machine machine,
                                  TimelineOptions options, std::vector<bool> stays) {
  options.placement = "best-fit";
  options.plan = nullptr;
  machine.devices.front().memory_bytes = blocks::MaxArenaBytes(options.alignment);
  Simulation simulation(graph, schedule, machine, options,
                        MakePlacementPolicy(options.placement).value(), std::move(stays));
  simulation.Simulate().IgnoreError();
  return simulation.stays();
}

// Plans the memory of a schedule and simulates it. The plan depends on the offloads that stay
// because the host has no room. Those are known only after a simulation, so the schedule is planned
// again until no more offloads stay.
absl::StatusOr<Timeline> SimulatePlanned(const TaskGraph& graph, const Schedule& schedule,
                                         const Machine& machine, TimelineOptions options) {
  const std::int64_t memory_bytes = machine.devices.front().memory_bytes;
  std::vector<bool> stays(schedule.steps.size());
  for (bool is_first = true; true; is_first = false) {
    absl::StatusOr<std::shared_ptr<const PlacementPlan>> plan =
        PlanSchedule(graph, WithoutSteps(schedule, stays), options.alignment, memory_bytes);
    if (!plan.ok()) return plan.status();
    if ((*plan)->height_bytes() > memory_bytes) {
      options.placement = "best-fit";
      options.plan = nullptr;
      return Simulate(graph, schedule, machine, options);
    }
    options.plan = *std::move(plan);
    Simulation simulation(graph, schedule, machine, options,
                          MakePlacementPolicy(options.placement).value(), stays);
    absl::StatusOr<Timeline> timeline = simulation.Simulate();
    if (simulation.stays() == stays) return timeline;
    stays = simulation.stays();
    if (is_first) stays = StaysWithPlenty(graph, schedule, machine, options, std::move(stays));
  }
}

// Simulates a valid schedule with fixed addresses or pages.
absl::StatusOr<Timeline> SimulateChecked(absl::Span<const TaskGraph> graphs,
                                         const Schedule& schedule, const Machine& machine,
                                         const LowerOptions& options) {
  const absl::StatusOr<Program> program = LowerSchedule(graphs, schedule, machine, options);
  if (!program.ok()) return program.status();
  Timeline timeline = SimulateProgram(graphs.front(), *program);
  timeline.resolved = schedule;
  return timeline;
}

}  // namespace

std::string_view StallReasonName(TimelineStall::Reason reason) {
  return kStallReasonNames[static_cast<std::size_t>(reason)];
}

absl::StatusOr<Timeline> Simulate(const TaskGraph& graph, const Schedule& schedule,
                                  const Machine& machine, const TimelineOptions& options) {
  if (absl::Status status = ValidateSchedule(graph, schedule); !status.ok()) return status;
  if (schedule.memory != ScheduleMemory::kPool) {
    return SimulateChecked(absl::MakeConstSpan(&graph, 1), schedule, machine, {});
  }
  absl::Status status = ValidateMachine(machine);
  if (status.ok()) {
    status = simulate::CheckTimelineOptions(options, machine.devices.front().memory_bytes);
  }
  if (!status.ok()) return status;
  PlacementContext context;
  if (options.plan != nullptr) context.plans.push_back(options.plan);
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy =
      MakePlacementPolicy(options.placement, context);
  if (!policy.ok()) return policy.status();
  if (PlacementTraitsOf(options.placement)->needs_plan && options.plan == nullptr) {
    return SimulatePlanned(graph, schedule, machine, options);
  }
  return Simulation(graph, schedule, machine, options, std::move(*policy),
                    std::vector<bool>(schedule.steps.size()))
      .Simulate();
}

absl::StatusOr<Timeline> Simulate(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                  const Machine& machine, const LowerOptions& options) {
  if (absl::Status status = ValidateSchedule(graphs, schedule); !status.ok()) return status;
  return SimulateChecked(graphs, schedule, machine, options);
}

}  // namespace tidepool
