// SPDX-License-Identifier: Apache-2.0
// Follows the waits once, as ReuseTimes does: a stream knows the first frees of each other one, and
// each free becomes known to it once.
#include "lib/memory/plan/waits_of_parts.h"

#include <algorithm>
#include <utility>

#include "lib/memory/plan/reuse_times.h"

namespace tidepool::plan {
namespace {

struct Free {
  std::int64_t time;
  std::uint32_t part;
};

class Divider {
 public:
  Divider(const PlanProblem& problem, std::span<const std::uint32_t> part_of, std::size_t parts)
      : streams_(StreamsOf(problem)),
        frees_(streams_),
        known_(streams_ * streams_),
        last_(parts),
        waits_(parts) {
    for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
      const PlanBuffer& buffer = problem.buffers[i];
      frees_[buffer.free_stream].push_back({buffer.upper, part_of[i]});
    }
    for (std::vector<Free>& frees : frees_) std::ranges::sort(frees, {}, &Free::time);
    for (const PlanWait& wait : problem.waits) Add(wait);
  }

  std::vector<std::vector<PlanWait>> TakeWaits() { return std::move(waits_); }

 private:
  void Add(const PlanWait& wait) {
    ++count_;
    if (wait.stream == wait.awaited) return;
    for (std::size_t other = 0; other < streams_; ++other) {
      if (other == wait.stream) continue;
      const std::size_t frees =
          other == wait.awaited ? FreesUntil(other, wait.time) : Known(wait.awaited, other);
      for (std::size_t& known = Known(wait.stream, other); known < frees; ++known) {
        Note(frees_[other][known].part, wait);
      }
    }
  }
  // Adds the wait that is followed to a part, once.
  void Note(std::uint32_t part, const PlanWait& wait) {
    if (std::exchange(last_[part], count_) != count_) waits_[part].push_back(wait);
  }
  std::size_t FreesUntil(std::size_t stream, std::int64_t time) const {
    const std::vector<Free>& frees = frees_[stream];
    return static_cast<std::size_t>(std::ranges::upper_bound(frees, time, {}, &Free::time) -
                                    frees.begin());
  }
  // Returns how many frees of another stream a stream knows of.
  std::size_t& Known(std::size_t stream, std::size_t other) {
    return known_[stream * streams_ + other];
  }

  const std::size_t streams_;
  std::vector<std::vector<Free>> frees_;  // by stream, in the order of time
  std::vector<std::size_t> known_;        // by stream and the stream that it knows of
  std::size_t count_ = 0;                 // of the waits so far
  std::vector<std::size_t> last_;         // by part: the count at its last wait
  std::vector<std::vector<PlanWait>> waits_;
};

}  // namespace

std::vector<std::vector<PlanWait>> WaitsOfParts(const PlanProblem& problem,
                                                std::span<const std::uint32_t> part_of,
                                                std::size_t parts) {
  return Divider(problem, part_of, parts).TakeWaits();
}

}  // namespace tidepool::plan
