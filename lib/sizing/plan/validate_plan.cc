// The referee of plans. It sweeps over time and keeps what is live in the order of addresses. It
// includes nothing of what makes plans, and must not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/plan.h"

namespace tidepool {
namespace {

absl::Status CheckPlace(const PlanBuffer& buffer, std::size_t index, std::int64_t offset,
                        std::int64_t height) {
  if (offset < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", index, " at offset ", offset, ", expected none below 0"));
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

struct Change {
  std::int64_t time;
  bool begins;  // ends come first at the same time
  std::size_t buffer;

  bool operator<(const Change& other) const {
    if (time != other.time) return time < other.time;
    return begins < other.begins;
  }
};

std::vector<Change> ChangesInOrder(const std::vector<PlanBuffer>& buffers) {
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    changes.push_back({buffers[i].lower, true, i});
    changes.push_back({buffers[i].upper, false, i});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

absl::Status Overlap(std::size_t a, std::size_t b, std::int64_t time) {
  return absl::InvalidArgumentError(absl::StrCat("buffers ", std::min(a, b), " and ",
                                                 std::max(a, b), " overlap at time ", time,
                                                 ", expected addresses of their own"));
}

}  // namespace

absl::Status ValidatePlan(const PlanProblem& problem, const std::vector<std::int64_t>& offsets,
                          std::int64_t height) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (offsets.size() != buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(offsets.size(), " offsets, expected ",
                                                   buffers.size(), ", one for every buffer"));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (absl::Status place = CheckPlace(buffers[i], i, offsets[i], height); !place.ok()) {
      return place;
    }
  }
  std::map<std::int64_t, std::size_t> live;  // by offset
  for (const Change& change : ChangesInOrder(buffers)) {
    const std::int64_t offset = offsets[change.buffer];
    if (!change.begins) {
      live.erase(offset);
      continue;
    }
    const auto above = live.lower_bound(offset);
    if (above != live.end() && above->first < offset + buffers[change.buffer].bytes) {
      return Overlap(change.buffer, above->second, change.time);
    }
    if (above != live.begin()) {
      const auto below = std::prev(above);
      if (below->first + buffers[below->second].bytes > offset) {
        return Overlap(change.buffer, below->second, change.time);
      }
    }
    live.emplace_hint(above, offset, change.buffer);
  }
  return absl::OkStatus();
}

}  // namespace tidepool
