// SPDX-License-Identifier: Apache-2.0
// Tables the times from which streams may use memory.
#include "lib/memory/plan/stream_conflicts.h"

#include <algorithm>

namespace tidepool::plan {
namespace {

constexpr std::size_t kMostEntries = std::size_t{1} << 25;

// Sorts, and removes equal values.
template <typename Value>
void MakeUnique(std::vector<Value>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

template <typename Value>
std::size_t Rank(const std::vector<Value>& values, Value value) {
  return static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), value) -
                                  values.begin());
}

}  // namespace

StreamConflicts::StreamConflicts(const PlanProblem& problem, const ReuseTimes& reuse,
                                 std::span<const std::uint32_t> members) {
  std::vector<std::uint32_t> streams;
  std::vector<std::int64_t> begins;
  for (const std::uint32_t i : members) {
    streams.push_back(problem.buffers[i].stream);
    begins.push_back(problem.buffers[i].lower);
  }
  MakeUnique(streams);
  MakeUnique(begins);
  if (members.size() * streams.size() > kMostEntries) return;
  streams_ = streams.size();
  reuse_.reserve(members.size() * streams_);
  for (const std::uint32_t i : members) {
    const PlanBuffer& buffer = problem.buffers[i];
    stream_.push_back(static_cast<std::uint32_t>(Rank(streams, buffer.stream)));
    begin_.push_back(static_cast<std::int32_t>(Rank(begins, buffer.lower)));
    for (const std::uint32_t stream : streams) {
      reuse_.push_back(static_cast<std::int32_t>(Rank(begins, reuse.For(buffer, stream))));
    }
  }
}

}  // namespace tidepool::plan
