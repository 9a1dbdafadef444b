// SPDX-License-Identifier: Apache-2.0
// Keeps, for each pair of streams, the times at which one learns of frees of the other.
#include "lib/memory/plan/reuse_times.h"

#include <algorithm>

namespace tidepool::plan {

ReuseTimes::ReuseTimes(const PlanProblem& problem)
    : streams_(StreamsOf(problem)),
      frees_(streams_),
      last_allocation_(streams_, INT64_MIN),
      steps_(streams_ * streams_) {
  for (const PlanBuffer& buffer : problem.buffers) {
    frees_[buffer.free_stream].push_back(buffer.upper);
    std::int64_t& last = last_allocation_[buffer.stream];
    last = std::max(last, buffer.lower);
  }
  for (std::vector<std::int64_t>& times : frees_) std::sort(times.begin(), times.end());
  for (const PlanWait& wait : problem.waits) Add(wait);
}

void ReuseTimes::Add(const PlanWait& wait) {
  const std::size_t stream = wait.stream;
  if (stream == wait.awaited) return;
  for (std::size_t other = 0; other < streams_; ++other) {
    if (other == stream) continue;
    const std::vector<Step>& awaited = Steps(wait.awaited, other);
    const std::size_t frees = other == wait.awaited ? FreesUntil(other, wait.time)
                              : awaited.empty()     ? 0
                                                    : awaited.back().frees;
    std::vector<Step>& steps = Steps(stream, other);
    if (frees > (steps.empty() ? 0 : steps.back().frees)) steps.push_back({wait.time, frees});
  }
}

std::size_t ReuseTimes::FreesUntil(std::size_t stream, std::int64_t time) const {
  const std::vector<std::int64_t>& frees = frees_[stream];
  return static_cast<std::size_t>(std::upper_bound(frees.begin(), frees.end(), time) -
                                  frees.begin());
}

std::int64_t ReuseTimes::For(const PlanBuffer& buffer, std::uint32_t stream) const {
  if (stream == buffer.free_stream) return buffer.upper;
  const std::vector<Step>& steps = Steps(stream, buffer.free_stream);
  const std::size_t frees = FreesUntil(buffer.free_stream, buffer.upper);
  const auto step = std::partition_point(steps.begin(), steps.end(),
                                         [&](const Step& known) { return known.frees < frees; });
  return step == steps.end() ? kNever : step->time;
}

std::int64_t ReuseTimes::ForAll(const PlanBuffer& buffer) const {
  std::int64_t time = buffer.upper;
  for (std::uint32_t stream = 0; stream < streams_; ++stream) {
    if (last_allocation_[stream] < time) continue;
    time = std::max(time, std::min(For(buffer, stream), last_allocation_[stream] + 1));
  }
  return time;
}

std::size_t StreamsOf(const PlanProblem& problem) {
  std::uint32_t highest = 0;
  for (const PlanBuffer& buffer : problem.buffers) {
    highest = std::max({highest, buffer.stream, buffer.free_stream});
  }
  for (const PlanWait& wait : problem.waits) {
    highest = std::max({highest, wait.stream, wait.awaited});
  }
  return std::size_t{highest} + 1;
}

}  // namespace tidepool::plan
