// SPDX-License-Identifier: Apache-2.0
// Checks plans independently. It includes no code of the planner, and must not.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/memory/plan/first_overlap.h"
#include "lib/memory/plan/limits.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

absl::Status CheckPlace(const PlanBuffer& buffer, std::size_t index, std::int64_t offset,
                        std::int64_t height) {
  if (offset < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", index, " at offset ", offset, ", expected 0 or more"));
  }
  if (buffer.bytes > height || offset > height - buffer.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", index, " of ", buffer.bytes,
                                                   " bytes at offset ", offset,
                                                   ", expected its end within ", height));
  }
  if (buffer.offset != PlanBuffer::kAnywhere) {
    if (offset == buffer.offset) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("buffer ", index, " at offset ", offset,
                                                   ", expected ", buffer.offset,
                                                   ", where it is fixed"));
  }
  if (offset % buffer.alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", index, " at offset ", offset,
                                                   ", expected a multiple of ", buffer.alignment));
  }
  return absl::OkStatus();
}

absl::Status CheckStream(std::uint32_t stream) {
  if (stream < plan::kMostStreams) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stream ", stream, ", expected 0 to ", plan::kMostStreams - 1));
}

absl::Status CheckStreams(const PlanProblem& problem) {
  absl::Status status;
  for (const PlanBuffer& buffer : problem.buffers) {
    status.Update(CheckStream(buffer.stream));
    status.Update(CheckStream(buffer.free_stream));
  }
  for (const PlanWait& wait : problem.waits) {
    status.Update(CheckStream(wait.stream));
    status.Update(CheckStream(wait.awaited));
  }
  return status;
}

}  // namespace

absl::Status ValidatePlan(const PlanProblem& problem, const std::vector<std::int64_t>& offsets,
                          std::int64_t height) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (offsets.size() != buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(offsets.size(), " offsets, expected ",
                                                   buffers.size(), ", one for every buffer"));
  }
  if (absl::Status status = CheckStreams(problem); !status.ok()) return status;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (absl::Status place = CheckPlace(buffers[i], i, offsets[i], height); !place.ok()) {
      return place;
    }
  }
  const std::optional<plan::PlanOverlap> overlap = plan::FirstOverlap(problem, offsets);
  if (!overlap.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("buffers ", overlap->a, " and ", overlap->b,
                                                 " overlap at time ", overlap->time,
                                                 ", expected disjoint addresses"));
}

}  // namespace tidepool
