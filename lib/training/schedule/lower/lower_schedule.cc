// SPDX-License-Identifier: Apache-2.0
// Lowers schedules: checks of numbers, rounds and iterations.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/lower/lowering.h"
#include "lib/training/schedule/steps/check_numbers.h"
#include "lib/training/schedule/steps/rounds.h"
#include "lib/training/schedule/steps/step_text.h"
#include "tidepool/training/program.h"

namespace tidepool {
namespace {

using schedule::WrongStep;

constexpr int kMostIterations = 1000;

absl::Status CheckStep(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
                       const LowerOptions& options, std::size_t at) {
  absl::Status status = schedule::CheckDeviceNumber(graph, schedule, at);
  if (status.ok()) status = schedule::CheckNumbers(graph, schedule, at);
  if (!status.ok()) return status;
  const ScheduleStep& step = schedule.steps[at];
  const bool is_compressed =
      step.kind == StepKind::kOffload && step.density >= 0 && options.host_compression == nullptr;
  if (is_compressed && !machine.devices[step.device].compressor.exists()) {
    return WrongStep(graph, schedule, at, "compressed, expected a raw copy of device ", step.device,
                     ", which has no compressor");
  }
  if ((step.kind == StepKind::kReceive || step.kind == StepKind::kAdd) && !machine.peers.exist()) {
    return WrongStep(graph, schedule, at, "from device ", step.source,
                     ", expected a machine with connections between its devices");
  }
  if (step.kind != StepKind::kRun) return absl::OkStatus();
  const bool is_host = step.device == kHostDevice;
  const std::size_t streams =
      is_host ? machine.host.cores : machine.devices[step.device].compute_streams;
  if (step.stream < streams) return absl::OkStatus();
  return WrongStep(graph, schedule, at, is_host ? "core " : "compute stream ", step.stream,
                   ", expected a number below ", streams, ", those of the machine");
}

absl::Status CheckHeader(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                         const Machine& machine, const LowerOptions& options) {
  if (absl::Status status = ValidateMachine(machine); !status.ok()) return status;
  if (schedule.memory != ScheduleMemory::kFixed && schedule.memory != ScheduleMemory::kPaged) {
    return absl::InvalidArgumentError(
        "the schedule is one of a pool, expected fixed addresses or pages: PlaceInPool gives it "
        "addresses");
  }
  if (schedule.alignment < 1 || schedule.alignment > kMostAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", schedule.alignment, ", expected 1 to ", kMostAlignment));
  }
  if (schedule.devices < 1 || schedule.devices > machine.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the schedule has ", schedule.devices,
                                                   " devices, expected 1 to those of the machine, ",
                                                   machine.devices.size()));
  }
  if (options.iterations < 1 || options.iterations > kMostIterations) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.iterations, " iterations, expected 1 to ", kMostIterations));
  }
  if (graphs.empty()) return absl::InvalidArgumentError("no graph, expected one for each batch");
  if (options.host_compression != nullptr) {
    absl::Status status = CheckCompressionProfile(options.host_compression->profile);
    if (!status.ok()) return status;
  }
  return schedule::CheckRounds(graphs, schedule);
}

// Returns the number of operations, and of the steps that cost time to walk.
absl::StatusOr<std::size_t> CountOperations(const Schedule& schedule,
                                            const std::vector<ScheduleRound>& rounds,
                                            int iterations) {
  std::size_t steps = 0;
  std::size_t operations = 0;
  for (const ScheduleRound& round : rounds) {
    const auto times = static_cast<std::size_t>(round.times);
    const auto repeated = times * static_cast<std::size_t>(iterations);
    if (times > kMostOperations ||
        round.steps > (kMostOperations - steps) / std::max<std::size_t>(repeated, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("the rounds have more than ", kMostOperations,
                                                     " steps, expected at most that many"));
    }
    steps += repeated * round.steps;
    for (std::size_t i = 0; i < round.steps; ++i) {
      const StepKind kind = schedule.steps[round.first_step + i].kind;
      const bool is_operation = kind == StepKind::kRun || kind == StepKind::kOffload ||
                                kind == StepKind::kPrefetch || kind == StepKind::kReceive ||
                                kind == StepKind::kAdd;
      if (is_operation) operations += repeated;
    }
  }
  return operations;
}

absl::Status CheckSteps(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        const Machine& machine, const LowerOptions& options,
                        const std::vector<ScheduleRound>& rounds) {
  for (const ScheduleRound& round : rounds) {
    const TaskGraph& graph = *schedule::GraphOf(graphs, round);
    for (std::size_t i = 0; i < round.steps; ++i) {
      absl::Status status = CheckStep(graph, schedule, machine, options, round.first_step + i);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status AddIteration(absl::Span<const TaskGraph> graphs,
                          const std::vector<ScheduleRound>& rounds, schedule::Lowering& lowering) {
  std::uint32_t repetition = 0;
  for (const ScheduleRound& round : rounds) {
    if (round.steps == 0) continue;
    lowering.SetGraph(*schedule::GraphOf(graphs, round));
    for (std::int64_t time = 0; time < round.times; ++time, ++repetition) {
      for (std::size_t i = 0; i < round.steps; ++i) {
        absl::Status status = lowering.AddStep(round.first_step + i, repetition);
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> LowerSchedule(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                      const Machine& machine, const LowerOptions& options) {
  absl::Status status = CheckHeader(graphs, schedule, machine, options);
  if (!status.ok()) return status;
  const std::vector<ScheduleRound> rounds = schedule::RoundsOf(schedule);
  status = CheckSteps(graphs, schedule, machine, options, rounds);
  if (!status.ok()) return status;
  const absl::StatusOr<std::size_t> operations =
      CountOperations(schedule, rounds, options.iterations);
  if (!operations.ok()) return operations.status();

  Program program;
  program.operations.reserve(*operations);
  schedule::Lowering lowering(graphs.front(), schedule, machine, options, program);
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (iteration > 0) lowering.EndIteration();
    program.iterations.push_back(program.operations.size());
    status = AddIteration(graphs, rounds, lowering);
    if (!status.ok()) return status;
  }
  status = lowering.Finish();
  if (!status.ok()) return status;
  return program;
}

}  // namespace tidepool
