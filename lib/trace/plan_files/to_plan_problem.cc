// SPDX-License-Identifier: Apache-2.0
// Converts traces to plan problems.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/memory/plan/memory_log.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

plan::MemoryEvent::Kind KindOf(TraceEvent::Kind kind) {
  switch (kind) {
    case TraceEvent::Kind::kAllocate:
      return plan::MemoryEvent::Kind::kAllocate;
    case TraceEvent::Kind::kFree:
      return plan::MemoryEvent::Kind::kFree;
    case TraceEvent::Kind::kWait:
      return plan::MemoryEvent::Kind::kWait;
    default:
      return plan::MemoryEvent::Kind::kOther;
  }
}

// A PyTorch snapshot records a free when the last stream had finished with the block. Logs of other
// allocators do not say which stream waited for which; a pool that follows the plan makes streams
// wait where they must.
bool HasAllWaits(const Trace& trace) {
  return trace.original_format == TraceFormat::kNative ||
         std::any_of(trace.events.begin(), trace.events.end(),
                     [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::kWait; });
}

plan::MemoryLog ToMemoryLog(const Trace& trace) {
  plan::MemoryLog log = {.streams = trace.stream_names.size(), .has_all_waits = HasAllWaits(trace)};
  log.events.reserve(trace.events.size());
  for (const TraceEvent& event : trace.events) {
    log.events.push_back({event.index, event.stream, KindOf(event.kind)});
  }
  log.bytes.reserve(trace.allocations.size());
  for (const TraceAllocation& allocation : trace.allocations) log.bytes.push_back(allocation.bytes);
  return log;
}

// Returns the file's time of an event, and a time just after the last one for an index beyond it.
std::int64_t TimeOf(const Trace& trace, std::int64_t event) {
  if (event < static_cast<std::int64_t>(trace.events.size())) {
    return trace.events[static_cast<std::size_t>(event)].time;
  }
  return trace.events.back().time + 1;
}

}  // namespace

absl::StatusOr<PlanProblem> ToPlanProblem(const Trace& trace, std::int64_t alignment) {
  absl::StatusOr<PlanProblem> problem = plan::ProblemOf(ToMemoryLog(trace), alignment);
  if (!problem.ok() || trace.original_format != TraceFormat::kLifetimeCsv) return problem;
  for (PlanBuffer& buffer : problem->buffers) {
    buffer.lower = TimeOf(trace, buffer.lower);
    buffer.upper = TimeOf(trace, buffer.upper);
  }
  return problem;
}

}  // namespace tidepool
