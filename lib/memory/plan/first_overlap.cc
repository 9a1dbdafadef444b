// SPDX-License-Identifier: Apache-2.0
// Sweeps over time and keeps the live buffers in the order of addresses. It includes no code of the
// planner, and must not.
#include "lib/memory/plan/first_overlap.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace tidepool::plan {
namespace {

struct BufferChange {
  std::int64_t time;
  bool begins;  // ends come first at the same time
  std::size_t buffer;

  bool operator<(const BufferChange& other) const {
    if (time != other.time) return time < other.time;
    return begins < other.begins;
  }
};

std::vector<BufferChange> ChangesInOrder(const std::vector<PlanBuffer>& buffers) {
  std::vector<BufferChange> changes;
  changes.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    changes.push_back({buffers[i].lower, true, i});
    changes.push_back({buffers[i].upper, false, i});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

bool HasDifferentStreams(const std::vector<PlanBuffer>& buffers) {
  return std::any_of(buffers.begin(), buffers.end(), [&](const PlanBuffer& buffer) {
    return buffer.stream != buffers.front().stream || buffer.free_stream != buffer.stream;
  });
}

}  // namespace

std::optional<PlanOverlap> FirstOverlap(const PlanProblem& problem,
                                        const std::vector<std::int64_t>& offsets) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (HasDifferentStreams(buffers)) return FirstOverlapOfStreams(problem, offsets);
  std::map<std::int64_t, std::size_t> live;  // by offset
  for (const BufferChange& change : ChangesInOrder(buffers)) {
    const auto overlap = [&](std::size_t other) {
      const auto [a, b] = std::minmax(change.buffer, other);
      return PlanOverlap{a, b, change.time};
    };
    const std::int64_t offset = offsets[change.buffer];
    if (!change.begins) {
      live.erase(offset);
      continue;
    }
    const auto above = live.lower_bound(offset);
    if (above != live.end() && above->first < offset + buffers[change.buffer].bytes) {
      return overlap(above->second);
    }
    if (above != live.begin()) {
      const auto below = std::prev(above);
      if (below->first + buffers[below->second].bytes > offset) return overlap(below->second);
    }
    live.emplace_hint(above, offset, change.buffer);
  }
  return std::nullopt;
}

}  // namespace tidepool::plan
