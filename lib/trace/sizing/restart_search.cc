// SPDX-License-Identifier: Apache-2.0
// The restart search, with equal attempts counted at once.
#include "lib/trace/sizing/restart_search.h"

#include <algorithm>
#include <utility>

#include "lib/trace/sizing/many_pools_arena.h"

namespace tidepool::sizing {
namespace {

constexpr std::int64_t kStepsPerLook = 4096;

// One simulation from the start of the trace, which may stand for several attempts.
class Attempts {
 public:
  Attempts(const TraceLoad& load, PlacementPolicy& policy, const MinimumPoolOptions& options,
           std::int64_t& steps_left, RestartResult& result)
      : arena_(PoolSet({result.pool_bytes, kUnbounded}),
               ManyPoolsArena::Addresses(load, options.alignment), options.alignment),
        placed_(load.peak_live_count, kNoBlock),
        policy_(policy),
        stop_(options.stop),
        steps_left_(steps_left),
        result_(result) {}

  enum class End { kServed, kStartAgain, kUndetermined, kOutOfSteps, kStopped };

  End Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (--steps_left_ < 0) return End::kOutOfSteps;
      if (steps_left_ % kStepsPerLook == 0 && stop_.stop_requested()) return End::kStopped;
      if (step.bytes == 0) {
        arena_.Free(placed_[step.slot]);
        continue;
      }
      Placement placement = Choose(step);
      while (placement.block == kNoBlock) {
        if (arena_.is_undetermined()) return End::kUndetermined;
        if (!StartAgain(step.bytes)) return End::kStartAgain;
        placement = Choose(step);
      }
      if (!arena_.HasAddresses(placement, step.bytes)) return End::kUndetermined;
      placed_[step.slot] = arena_.Allocate(placement, step.bytes);
    }
    return End::kServed;
  }

 private:
  // Begins the attempts that follow the failure of a request of `bytes`. Returns false when the
  // last of them would have placed an earlier request elsewhere.
  bool StartAgain(std::int64_t bytes) {
    const std::int64_t hole = arena_.LargestHole();
    const std::int64_t gap = arena_.gap_bytes();
    const std::int64_t more = bytes - std::max(hole, gap);
    // While the gap is no larger than the hole, attempts fail at the same event by the same amount.
    // There may be billions of them, so they are counted at once.
    std::int64_t attempts = 1;
    if (gap <= hole) {
      const std::int64_t agreeing = arena_.pools().intervals().front().end - 1 - result_.pool_bytes;
      attempts += std::min(hole - gap, agreeing) / more;
    }
    result_.attempts += attempts;
    result_.pool_bytes += attempts * more;
    PoolSet larger = arena_.pools().Intersection({result_.pool_bytes, kUnbounded});
    if (larger.empty() || larger.min() != result_.pool_bytes) return false;
    arena_.set_pools(std::move(larger));
    return true;
  }

  Placement Choose(const Step& step) {
    PoolSet others;
    return arena_.Choose({step.bytes, step.hint}, policy_, &others);
  }

  ManyPoolsArena arena_;
  std::vector<BlockId> placed_;  // by slot
  PlacementPolicy& policy_;
  const std::stop_token& stop_;
  std::int64_t& steps_left_;
  RestartResult& result_;
};

}  // namespace

RestartResult SearchByRestart(const std::vector<Step>& steps, const TraceLoad& load,
                              PlacementPolicy& policy, const MinimumPoolOptions& options) {
  std::int64_t steps_left = options.most_restart_steps;
  RestartResult result = {.pool_bytes = load.peak_live_bytes, .attempts = 1};
  for (;;) {
    switch (Attempts(load, policy, options, steps_left, result).Run(steps)) {
      case Attempts::End::kServed:
        return result;
      case Attempts::End::kStartAgain:
        break;
      case Attempts::End::kUndetermined:
        result.end = RestartResult::End::kUndetermined;
        return result;
      case Attempts::End::kOutOfSteps:
        result.end = RestartResult::End::kOutOfSteps;
        return result;
      case Attempts::End::kStopped:
        result.end = RestartResult::End::kStopped;
        return result;
    }
  }
}

}  // namespace tidepool::sizing
