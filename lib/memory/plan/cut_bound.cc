// SPDX-License-Identifier: Apache-2.0
// Splits each stream at its waits and where it is waited for. Inside a segment no wait matters, so
// the best place for a cut there is the one with the most live bytes.
#include "lib/memory/plan/cut_bound.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "lib/memory/plan/max_flow.h"
#include "lib/memory/plan/reuse_times.h"

namespace tidepool::plan {
namespace {

constexpr std::int64_t kMostSteps = 50'000'000;  // well below a second

// An allocation, a free, or a wait, which has no bytes.
struct Change {
  std::int64_t time;
  std::int64_t bytes;

  // Frees come before waits at the same time, and allocations after them.
  bool operator<(const Change& other) const {
    return std::tie(time, bytes) < std::tie(other.time, other.bytes);
  }
};

// The changes of a stream. A segment begins after each number of changes in `splits`, and with no
// change.
struct Stream {
  std::vector<Change> changes;
  std::vector<std::size_t> splits;
  std::size_t first_node = 0;  // one node a split: the cut has at least one change for each

  // Return the number of changes up to a wait of this stream, and before a wait for it.
  std::size_t WaitingPosition(const PlanWait& wait) const {
    return static_cast<std::size_t>(
        std::lower_bound(changes.begin(), changes.end(), Change{wait.time, 0}) - changes.begin() +
        1);
  }
  std::size_t AwaitedPosition(const PlanWait& wait) const {
    return static_cast<std::size_t>(
        std::upper_bound(changes.begin(), changes.end(), Change{wait.time, 0}) - changes.begin());
  }
  std::size_t NodeOf(std::size_t position) const {
    return first_node +
           static_cast<std::size_t>(std::lower_bound(splits.begin(), splits.end(), position) -
                                    splits.begin());
  }
  // Returns the most live bytes in each segment. The end of a segment is the start of the next.
  std::vector<std::int64_t> SegmentPeaks() const {
    std::vector<std::int64_t> peaks = {0};
    std::int64_t live = 0;
    for (std::size_t i = 0; i <= changes.size(); ++i) {
      if (i > 0) live += changes[i - 1].bytes;
      if (std::binary_search(splits.begin(), splits.end(), i)) peaks.push_back(live);
      peaks.back() = std::max(peaks.back(), live);
    }
    return peaks;
  }
};

class CutBound {
 public:
  explicit CutBound(const PlanProblem& problem) : streams_(StreamsOf(problem)) {
    for (const PlanBuffer& buffer : problem.buffers) {
      streams_[buffer.stream].changes.push_back({buffer.lower, buffer.bytes});
      streams_[buffer.free_stream].changes.push_back({buffer.upper, -buffer.bytes});
    }
    for (const PlanWait& wait : problem.waits) {
      streams_[wait.stream].changes.push_back({wait.time, 0});
    }
    for (Stream& stream : streams_) std::sort(stream.changes.begin(), stream.changes.end());
    for (const PlanWait& wait : problem.waits) Split(wait);
    for (Stream& stream : streams_) {
      std::sort(stream.splits.begin(), stream.splits.end());
      stream.splits.erase(std::unique(stream.splits.begin(), stream.splits.end()),
                          stream.splits.end());
      stream.first_node = nodes_;
      nodes_ += stream.splits.size();
    }
  }

  std::int64_t Find(const std::vector<PlanWait>& waits) const {
    FlowNetwork network(nodes_ + 2);
    const std::size_t source = nodes_;
    const std::size_t sink = nodes_ + 1;
    std::int64_t bound = 0;
    for (const Stream& stream : streams_) {
      const std::vector<std::int64_t> peaks = stream.SegmentPeaks();
      bound += peaks.front();
      for (std::size_t i = 0; i < stream.splits.size(); ++i) {
        const std::size_t node = stream.first_node + i;
        const std::int64_t gain = peaks[i + 1] - peaks[i];
        bound += std::max<std::int64_t>(gain, 0);
        if (gain > 0) network.AddEdge(source, node, gain);
        if (gain < 0) network.AddEdge(node, sink, -gain);
        if (i > 0) network.AddEdge(node, node - 1, kUnlimited);
      }
    }
    for (const PlanWait& wait : waits) {
      if (wait.stream == wait.awaited) continue;
      const Stream& waiting = streams_[wait.stream];
      const Stream& awaited = streams_[wait.awaited];
      network.AddEdge(waiting.NodeOf(waiting.WaitingPosition(wait)),
                      awaited.NodeOf(awaited.AwaitedPosition(wait)), kUnlimited);
    }
    const std::optional<std::int64_t> flow = network.MaxFlow(source, sink, kMostSteps);
    return flow.has_value() ? bound - *flow : 0;
  }

 private:
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

  void Split(const PlanWait& wait) {
    streams_[wait.stream].splits.push_back(streams_[wait.stream].WaitingPosition(wait));
    streams_[wait.awaited].splits.push_back(streams_[wait.awaited].AwaitedPosition(wait));
  }

  std::vector<Stream> streams_;
  std::size_t nodes_ = 0;
};

}  // namespace

std::int64_t BoundByCuts(const PlanProblem& problem) {
  return CutBound(problem).Find(problem.waits);
}

}  // namespace tidepool::plan
