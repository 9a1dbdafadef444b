// SPDX-License-Identifier: Apache-2.0
// Turns a memory log into a plan problem.
#include "lib/memory/plan/memory_log.h"

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/plan/limits.h"

namespace tidepool::plan {
namespace {

absl::Status Check(const MemoryLog& log, std::int64_t alignment) {
  if (alignment < 1 || alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
  }
  if (log.has_all_waits && log.streams > kMostStreams) {
    return absl::ResourceExhaustedError(
        absl::StrCat(log.streams, " streams, expected at most ", kMostStreams, " for a plan"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanProblem> ProblemOf(const MemoryLog& log, std::int64_t alignment) {
  if (absl::Status status = Check(log, alignment); !status.ok()) return status;
  const auto end = static_cast<std::int64_t>(log.events.size());
  PlanProblem problem;
  problem.buffers.resize(log.bytes.size());
  for (std::int64_t time = 0; time < end; ++time) {
    const MemoryEvent& event = log.events[static_cast<std::size_t>(time)];
    const std::uint32_t stream = log.has_all_waits ? event.stream : 0;
    switch (event.kind) {
      case MemoryEvent::Kind::kAllocate:
        problem.buffers[event.index] = {.lower = time,
                                        .upper = end,
                                        .bytes = AlignUp(log.bytes[event.index], alignment),
                                        .alignment = alignment,
                                        .stream = stream,
                                        .free_stream = stream};
        break;
      case MemoryEvent::Kind::kFree:
        problem.buffers[event.index].upper = time;
        problem.buffers[event.index].free_stream = stream;
        break;
      case MemoryEvent::Kind::kWait:
        if (log.has_all_waits) problem.waits.push_back({time, stream, event.index});
        break;
      case MemoryEvent::Kind::kOther:
        break;
    }
  }
  return problem;
}

}  // namespace tidepool::plan
