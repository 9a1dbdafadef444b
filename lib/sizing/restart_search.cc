#include "lib/sizing/restart_search.h"

#include <utility>

#include "lib/sizing/many_pools_arena.h"

namespace tidepool::sizing {
namespace {

// One simulation from the start of the trace, which may hold several attempts.
class Attempts {
 public:
  Attempts(const TraceLoad& load, PlacementPolicy& policy, std::int64_t alignment,
           RestartResult& result)
      : arena_(PoolSet({result.pool_bytes, kUnbounded}), ManyPoolsArena::Addresses(load, alignment),
               alignment),
        placed_(load.peak_live_count, kNoBlock),
        policy_(policy),
        result_(result) {}

  enum class End { kServed, kStartAgain, kGivenUp };

  End Run(const std::vector<Step>& steps) {
    ++result_.attempts;
    for (const Step& step : steps) {
      if (step.bytes == 0) {
        arena_.Free(placed_[step.slot]);
        continue;
      }
      Placement placement = Choose(step);
      while (placement.block == kNoBlock) {
        if (arena_.is_undetermined()) return End::kGivenUp;
        result_.pool_bytes += step.bytes - arena_.LargestFree();
        PoolSet larger = arena_.pools().Intersection({result_.pool_bytes, kUnbounded});
        if (larger.empty() || larger.min() != result_.pool_bytes) return End::kStartAgain;
        arena_.set_pools(std::move(larger));
        ++result_.attempts;
        placement = Choose(step);
      }
      if (!arena_.HasAddresses(placement, step.bytes)) return End::kGivenUp;
      placed_[step.slot] = arena_.Allocate(placement, step.bytes);
    }
    return End::kServed;
  }

 private:
  Placement Choose(const Step& step) {
    PoolSet others;
    return arena_.Choose({step.bytes, step.hint}, policy_, &others);
  }

  ManyPoolsArena arena_;
  std::vector<BlockId> placed_;  // by slot
  PlacementPolicy& policy_;
  RestartResult& result_;
};

}  // namespace

std::optional<RestartResult> SearchByRestart(const std::vector<Step>& steps, const TraceLoad& load,
                                             PlacementPolicy& policy, std::int64_t alignment) {
  RestartResult result = {.pool_bytes = load.peak_live_bytes};
  for (;;) {
    switch (Attempts(load, policy, alignment, result).Run(steps)) {
      case Attempts::End::kServed:
        return result;
      case Attempts::End::kStartAgain:
        break;
      case Attempts::End::kGivenUp:
        return std::nullopt;
    }
  }
}

}  // namespace tidepool::sizing
