// SPDX-License-Identifier: Apache-2.0
// Latencies of calls, and their percentiles.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tidepool::tool {

// Percentiles by nearest rank: each is a measured value.
struct LatencySummary {
  std::uint32_t median_ns = 0;
  std::uint32_t p99_ns = 0;
};

class Latencies {
 public:
  void Reserve(std::size_t calls) { nanoseconds_.reserve(calls); }
  void Add(std::uint32_t nanoseconds) { nanoseconds_.push_back(nanoseconds); }
  // Returns nothing without calls. Reorders the latencies. O(calls).
  std::optional<LatencySummary> Summarize();

 private:
  std::uint32_t AtRank(std::size_t percent);

  std::vector<std::uint32_t> nanoseconds_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_
