#include "lib/sizing/plan/check_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tidepool::sizing {
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
    // Aligned offsets waste less than an alignment each.
    left -= buffer.bytes + buffer.alignment - 1;
    if (left < 0) {
      return absl::InvalidArgumentError(absl::StrCat("buffers 0 to ", i, " sum up to more than ",
                                                     kMostBytes, " bytes, expected less"));
    }
  }
  return absl::OkStatus();
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
  if (largest->bytes <= *options.capacity) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "capacity ", *options.capacity, ", expected at least ", largest->bytes,
      ", the size of buffer ", largest - problem.buffers.begin(), ", which is the largest"));
}

}  // namespace tidepool::sizing
