// SPDX-License-Identifier: Apache-2.0
// Problems with and without streams.
#include "trace_replay/commands/stream_waits.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/streams_apart.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/text.h"

namespace tidepool::tool {

absl::StatusOr<PlanProblem> ProblemOf(const MeasuredTrace& measured, StreamWaits waits) {
  absl::StatusOr<PlanProblem> problem = ToPlanProblem(*measured.trace, measured.alignment);
  if (!problem.ok() || waits == StreamWaits::kNone) return problem;
  for (PlanBuffer& buffer : problem->buffers) buffer.stream = buffer.free_stream = 0;
  problem->waits.clear();
  return problem;
}

bool HasOrderedStreams(const PlanProblem& problem) {
  return std::any_of(problem.buffers.begin(), problem.buffers.end(), [&](const PlanBuffer& buffer) {
    const std::uint32_t first = problem.buffers.front().stream;
    return buffer.stream != first || buffer.free_stream != first;
  });
}

std::string StreamsText(const PlanProblem& problem) {
  std::set<std::uint32_t> streams;
  for (const PlanBuffer& buffer : problem.buffers) streams.insert(buffer.stream);
  return absl::StrCat(CountText(static_cast<std::int64_t>(streams.size())), " streams, ",
                      CountText(static_cast<std::int64_t>(problem.waits.size())),
                      " recorded waits");
}

absl::StatusOr<std::int64_t> PoolWithoutWaits(const MeasuredTrace& measured,
                                              const PlanProblem& problem, PlacementPolicy& policy,
                                              MinimumPoolOptions limits) {
  limits.most_steps = 0;
  std::int64_t bytes = 0;
  for (const Trace& part : StreamsApart(*measured.trace, problem)) {
    const absl::StatusOr<MinimumPoolResult> result = MinimumPool(part, policy, limits);
    if (!result.ok()) return result.status();
    bytes += result->pool_bytes;
  }
  return bytes;
}

}  // namespace tidepool::tool
