// SPDX-License-Identifier: Apache-2.0
// Checks problems and options before planning.
#include "lib/plan/check_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/plan/instance.h"

namespace tidepool::plan {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;  // heights stay far from overflow
constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;
constexpr std::size_t kMostBuffers = INT32_MAX - 1;

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
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer ", index, ": ", buffer.bytes, " bytes at offset ", buffer.offset,
        ", expected one of 0 or more, with their end within ", kMostBytes, ", or kAnywhere"));
  }
  return absl::OkStatus();
}

// Returns the begins and ends of fixed buffers in the order of time; ends come first at the same
// time.
std::vector<std::tuple<std::int64_t, bool, std::size_t>> FixedChanges(const PlanProblem& problem) {
  std::vector<std::tuple<std::int64_t, bool, std::size_t>> changes;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (!IsFixed(problem.buffers[i])) continue;
    changes.emplace_back(problem.buffers[i].lower, true, i);
    changes.emplace_back(problem.buffers[i].upper, false, i);
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

absl::Status FixedOverlap(const PlanProblem& problem, std::size_t a, std::size_t b) {
  if (a > b) std::swap(a, b);
  return absl::InvalidArgumentError(
      absl::StrCat("buffer ", a, " fixed at offset ", problem.buffers[a].offset, " and buffer ", b,
                   " fixed at offset ", problem.buffers[b].offset,
                   " overlap in time and address, expected disjoint addresses"));
}

absl::Status CheckFixed(const PlanProblem& problem) {
  std::map<std::int64_t, std::size_t> live;  // by offset
  for (const auto& [time, begins, buffer] : FixedChanges(problem)) {
    const std::int64_t offset = problem.buffers[buffer].offset;
    if (!begins) {
      live.erase(offset);
      continue;
    }
    const auto above = live.lower_bound(offset);
    if (above != live.end() && above->first < offset + problem.buffers[buffer].bytes) {
      return FixedOverlap(problem, buffer, above->second);
    }
    if (above != live.begin()) {
      const auto& [below_offset, below] = *std::prev(above);
      if (below_offset + problem.buffers[below].bytes > offset) {
        return FixedOverlap(problem, buffer, below);
      }
    }
    live.emplace_hint(above, offset, buffer);
  }
  return absl::OkStatus();
}

}  // namespace

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

}  // namespace tidepool::plan
