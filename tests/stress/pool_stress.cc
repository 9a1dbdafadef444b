// The pool: threads that take, use and free memory of all sizes on streams that come and go, while
// others trim it, look at it and take the device's memory away.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/stress/device_faults.h"
#include "tests/stress/live_map.h"
#include "tests/stress/pool_rig.h"
#include "tests/stress/pool_user.h"
#include "tests/stress/stress.h"

namespace tidepool::stress {
namespace {

constexpr std::size_t kMostBuffers = 60;

void Allocate(Worker& worker, PoolUser& user, std::int64_t most_bytes) {
  Dice& dice = worker.dice();
  const std::int64_t bytes = dice.Bytes(most_bytes);
  if (!dice.Chance(0.2)) {
    user.Take(bytes);
    return;
  }
  // A thread that holds nothing may wait for ever: those that hold something free it in the end.
  if (dice.Chance(0.1)) user.FreeAll();
  const absl::Time deadline = user.size() == 0
                                  ? absl::InfiniteFuture()
                                  : absl::Now() + absl::Microseconds(dice.Between(0, 2000));
  user.TakeBlocking(bytes, deadline);
}

void Step(Worker& worker, PoolRig& rig, PoolUser& user, std::int64_t most_bytes) {
  Dice& dice = worker.dice();
  rig.faults().MaybeOrder(dice);
  const std::size_t choice = dice.Below(100);
  if (user.size() < kMostBuffers && choice < 45) return Allocate(worker, user, most_bytes);
  if (choice >= 90) return rig.Inspect(worker, user);
  if (user.size() == 0) return;
  const std::size_t at = dice.Below(user.size());
  if (choice < 75) return user.Free(at);
  if (choice < 80) return user.Rewrite(at);
  user.CheckContents(at);
}

}  // namespace

void RunPoolRound(Round& round) {
  Dice& dice = round.dice();
  PoolRig rig(round, AnyPoolOptions(dice));
  const int threads = static_cast<int>(dice.Between(1, 8));
  const std::int64_t most_bytes = rig.budget() / dice.Between(1, 8);
  RunWorkers(round, threads, [&](Worker& worker) {
    PoolUser user(worker, rig.share());
    for (int i = Steps(6000 / threads); i > 0; --i) Step(worker, rig, user, most_bytes);
    user.FreeAll();
  });
  rig.End();
}

}  // namespace tidepool::stress
