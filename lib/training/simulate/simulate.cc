// SPDX-License-Identifier: Apache-2.0
// Simulates schedules: those of pools with the addresses that the pool gives.
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 3> kStallReasonNames = {"data", "memory", "synchronize"};

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
                                  const Machine& machine, const PlacingOptions& options) {
  if (schedule.memory != ScheduleMemory::kPool) {
    return Simulate(absl::MakeConstSpan(&graph, 1), schedule, machine);
  }
  absl::StatusOr<PlacedSchedule> placed = PlaceInPool(graph, schedule, machine, options);
  if (!placed.ok()) return placed.status();
  const HostCompression compression = {options.compression, options.compression_threads};
  absl::StatusOr<Program> program =
      LowerSchedule({&graph, 1}, placed->schedule, machine, {.host_compression = &compression});
  if (!program.ok()) return program.status();
  for (ProgramOperation& operation : program->operations) {
    operation.step = static_cast<std::uint32_t>(placed->steps[operation.step]);
  }
  Timeline timeline = SimulateProgram(graph, *program);
  timeline.stayed = placed->stayed;
  timeline.pool_bytes = placed->pool_bytes;
  timeline.plan = std::move(placed->plan);
  timeline.resolved = std::move(placed->resolved);
  return timeline;
}

absl::StatusOr<Timeline> Simulate(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                  const Machine& machine, const LowerOptions& options) {
  if (absl::Status status = ValidateSchedule(graphs, schedule); !status.ok()) return status;
  return SimulateChecked(graphs, schedule, machine, options);
}

}  // namespace tidepool
