// SPDX-License-Identifier: Apache-2.0
#include "lib/training/simulate/program_stalls.h"

#include <cstdint>

namespace tidepool::simulate {
namespace {

// By ProgramWait::Reason.
constexpr TimelineStall::Reason kStallReasons[] = {TimelineStall::Reason::kData,
                                                   TimelineStall::Reason::kMemory,
                                                   TimelineStall::Reason::kSynchronize};

// Returns the data that a copy moves, or the first that a task writes or updates.
std::size_t DataOf(const TaskGraph& graph, const ProgramOperation& operation) {
  if (operation.kind != ProgramOperation::Kind::kTask) return operation.index;
  const GraphTask& task = graph.tasks[operation.index];
  return task.writes.empty() ? task.updates.front() : task.writes.front();
}

// Returns the wait of an operation that ends last, or null without waits.
const ProgramWait* LastWait(const Program& program, const ProgramOperation& operation,
                            absl::Span<const OperationTimes> times) {
  const ProgramWait* last = nullptr;
  for (std::uint32_t i = 0; i < operation.waits; ++i) {
    const ProgramWait& wait = program.waits[operation.first_wait + i];
    if (last == nullptr || times[wait.operation].end > times[last->operation].end) last = &wait;
  }
  return last;
}

}  // namespace

std::vector<TimelineStall> ProgramStalls(const TaskGraph& graph, const Program& program,
                                         absl::Span<const OperationTimes> times) {
  std::vector<TimelineStall> stalls;
  std::vector<double> tails(program.streams.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ProgramOperation& operation = program.operations[i];
    const ProgramStream& stream = program.streams[operation.stream];
    double& tail = tails[operation.stream];
    if (stream.kind == ProgramStream::Kind::kCompute && times[i].start > tail) {
      const ProgramWait* cause = LastWait(program, operation, times);
      if (cause != nullptr && times[cause->operation].end > tail) {
        stalls.push_back({operation.index, tail, times[i].start - tail,
                          kStallReasons[static_cast<std::size_t>(cause->reason)],
                          DataOf(graph, program.operations[cause->operation]), stream.device,
                          stream.number});
      }
    }
    tail = times[i].end;
  }
  return stalls;
}

}  // namespace tidepool::simulate
