// How long calls took.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tidepool::tool {

// By nearest rank: a median and a 99th percentile that were really measured.
struct LatencySummary {
  std::uint32_t median_ns = 0;
  std::uint32_t p99_ns = 0;
};

class Latencies {
 public:
  void Reserve(std::size_t calls) { nanoseconds_.reserve(calls); }
  void Add(std::uint32_t nanoseconds) { nanoseconds_.push_back(nanoseconds); }
  // Nothing when there was no call. Forgets in which order they were. O(calls).
  std::optional<LatencySummary> Summarize();

 private:
  std::uint32_t AtRank(std::size_t percent);

  std::vector<std::uint32_t> nanoseconds_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_LATENCIES_H_
