// SPDX-License-Identifier: Apache-2.0
// Computes from when each stream may use the memory of a buffer.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_REUSE_TIMES_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_REUSE_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Follows the waits of streams with vector clocks (Fidge 1988, Mattern 1989).
class ReuseTimes {
 public:
  static constexpr std::int64_t kNever = INT64_MAX;

  // The problem's waits are valid. O(n log n + waits streams log n).
  explicit ReuseTimes(const PlanProblem& problem);

  // Returns the time from which `stream` knows of the free of a buffer of the problem; kNever
  // without a wait for it. O(log n).
  std::int64_t For(const PlanBuffer& buffer, std::uint32_t stream) const;
  // Returns the time from which every stream that still allocates knows of the free.
  // O(streams log n).
  std::int64_t ForAll(const PlanBuffer& buffer) const;

 private:
  // From `time` on, a stream knows of the first `frees` frees of another one.
  struct Step {
    std::int64_t time;
    std::size_t frees;
  };

  void Add(const PlanWait& wait);
  // Returns the number of frees of a stream up to a time.
  std::size_t FreesUntil(std::size_t stream, std::int64_t time) const;
  std::vector<Step>& Steps(std::size_t stream, std::size_t other) {
    return steps_[stream * streams_ + other];
  }
  const std::vector<Step>& Steps(std::size_t stream, std::size_t other) const {
    return steps_[stream * streams_ + other];
  }

  std::size_t streams_;
  std::vector<std::vector<std::int64_t>> frees_;  // by stream: times, ascending
  std::vector<std::int64_t> last_allocation_;     // by stream
  std::vector<std::vector<Step>> steps_;          // by stream and the stream that it knows of
};

// Returns one more than the highest stream of a problem.
std::size_t StreamsOf(const PlanProblem& problem);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_REUSE_TIMES_H_
