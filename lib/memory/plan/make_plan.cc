// SPDX-License-Identifier: Apache-2.0
// Checks problems before they are planned, and plans before they are returned.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/budget/budget.h"
#include "lib/memory/plan/first_overlap.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/limits.h"
#include "lib/memory/plan/planner.h"
#include "lib/memory/plan/reuse_times.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {
namespace {

absl::Status CheckBuffer(const PlanBuffer& buffer, std::size_t index) {
  if (buffer.upper <= buffer.lower) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", index, ": upper ", buffer.upper, " after lower ", buffer.lower,
                     ", expected a greater one: a buffer lives in [lower, upper)"));
  }
  if (buffer.bytes < 1 || buffer.bytes > kMaxRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", index, ": ", buffer.bytes,
                                                   " bytes, expected 1 to ", kMaxRequestBytes));
  }
  const std::int64_t alignment = buffer.alignment;
  if (alignment < 1 || alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", index, ": alignment ", alignment,
                                                   ", expected a power of two up to ",
                                                   kLargestAlignment));
  }
  if (IsFixed(buffer) && (buffer.offset < 0 || buffer.offset > kMostBytes - buffer.bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", index, ": ", buffer.bytes, " bytes at offset ", buffer.offset,
                     ", expected kAnywhere, or an offset from 0 with the end within ", kMostBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckFixed(const PlanProblem& problem) {
  PlanProblem fixed = {.buffers = {}, .waits = problem.waits};
  std::vector<std::size_t> numbers;
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (!IsFixed(problem.buffers[i])) continue;
    fixed.buffers.push_back(problem.buffers[i]);
    numbers.push_back(i);
    offsets.push_back(problem.buffers[i].offset);
  }
  const std::optional<PlanOverlap> overlap = FirstOverlap(fixed, offsets);
  if (!overlap.has_value()) return absl::OkStatus();
  const auto text = [&](std::size_t i) {
    return absl::StrCat("buffer ", numbers[i], " fixed at offset ", offsets[i]);
  };
  return absl::InvalidArgumentError(
      absl::StrCat(text(overlap->a), " and ", text(overlap->b),
                   " overlap in time and address, expected disjoint addresses"));
}

absl::Status CheckStreams(const PlanProblem& problem) {
  if (StreamsOf(problem) > kMostStreams) {
    return absl::ResourceExhaustedError(absl::StrCat(
        StreamsOf(problem), " streams, expected at most ", kMostStreams, " for a plan"));
  }
  const auto unordered = std::ranges::is_sorted_until(problem.waits, {}, &PlanWait::time);
  if (unordered == problem.waits.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wait ", unordered - problem.waits.begin(), " at time ", unordered->time,
                   " after time ", (unordered - 1)->time, ", expected waits in the order of time"));
}

// Returns the errors of MakePlan. O(n log n).
absl::Status CheckProblem(const PlanProblem& problem) {
  if (problem.buffers.size() > kMostBuffers) {
    return absl::ResourceExhaustedError(
        absl::StrCat(problem.buffers.size(), " buffers, expected at most ", kMostBuffers));
  }
  std::int64_t left = kMostBytes;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const PlanBuffer& buffer = problem.buffers[i];
    if (absl::Status status = CheckBuffer(buffer, i); !status.ok()) return status;
    // Aligned offsets waste less than one alignment per buffer.
    left -= buffer.bytes + buffer.alignment - 1;
    if (left < 0) {
      return absl::InvalidArgumentError(absl::StrCat("buffers 0 to ", i, " sum up to more than ",
                                                     kMostBytes, " bytes, expected less"));
    }
  }
  if (absl::Status status = CheckStreams(problem); !status.ok()) return status;
  return CheckFixed(problem);
}

absl::Status CheckOptions(const PlanProblem& problem, const PlanOptions& options) {
  if (!(options.time_limit_seconds >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("time limit of ", options.time_limit_seconds, " seconds, expected 0 or more"));
  }
  if (!options.capacity.has_value() || problem.buffers.empty()) return absl::OkStatus();
  const auto largest =
      std::max_element(problem.buffers.begin(), problem.buffers.end(),
                       [](const PlanBuffer& a, const PlanBuffer& b) { return a.bytes < b.bytes; });
  if (largest->bytes > *options.capacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity ", *options.capacity, ", expected at least ", largest->bytes,
        ", the size of buffer ", largest - problem.buffers.begin(), ", which is the largest"));
  }
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const PlanBuffer& buffer = problem.buffers[i];
    if (!IsFixed(buffer) || buffer.offset + buffer.bytes <= *options.capacity) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("capacity ", *options.capacity, ", expected at least ",
                     buffer.offset + buffer.bytes, ", the end of buffer ", i, ", which is fixed"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tidepool::plan

namespace tidepool {

absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem) {
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  return plan::LowerBoundOf(problem);
}

absl::StatusOr<Plan> MakePlan(const PlanProblem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  if (absl::Status status = plan::CheckOptions(problem, options); !status.ok()) return status;
  budget::Budget whole(options.time_limit_seconds, options.stop);
  Plan plan = plan::MakePlanIn(problem, options, UINT64_MAX, whole);
  plan.timed_out = whole.timed_out();
  plan.stopped = whole.is_stopped();
  if (absl::Status valid = ValidatePlan(problem, plan.offsets, plan.height); !valid.ok()) {
    return absl::InternalError(absl::StrCat("the planner made an invalid plan: ", valid.message()));
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace tidepool
