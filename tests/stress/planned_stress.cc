// SPDX-License-Identifier: Apache-2.0
// Planned iterations: threads that mostly repeat their earlier requests, with or without marks, in
// a pool that makes plans meanwhile.
#include <memory>
#include <utility>
#include <vector>

#include "tests/stress/pool_rig.h"
#include "tests/stress/pool_user.h"
#include "tests/stress/stress.h"
#include "tidepool/planned_placement.h"

namespace tidepool::stress {
namespace {

// The requests of an iteration: some are freed at once, the rest at the end in reverse order.
struct Request {
  std::int64_t bytes = 0;
  bool is_temporary = false;
};
using IterationKind = std::vector<Request>;

std::vector<IterationKind> AnyKinds(Dice& dice, std::int64_t most_bytes) {
  std::vector<IterationKind> kinds(dice.Below(6) + 1);
  for (IterationKind& kind : kinds) {
    kind.resize(dice.Below(40) + 1);
    const std::int64_t most = most_bytes / static_cast<std::int64_t>(kind.size());
    for (Request& request : kind) request = {dice.Between(1, most), dice.Chance(0.3)};
  }
  return kinds;
}

// The bytes of all requests together.
std::shared_ptr<const PlacementPlan> PlanOf(const IterationKind& kind, std::int64_t alignment) {
  std::vector<PlannedRequest> requests;
  std::int64_t end = 0;
  for (const Request& request : kind) {
    const std::int64_t bytes = (request.bytes + alignment - 1) / alignment * alignment;
    requests.push_back({.bytes = bytes, .offset = end});
    end += bytes;
  }
  return std::make_shared<const PlacementPlan>(std::move(requests));
}

// Runs an iteration. `deviating` is the probability of each request to differ or to be left out.
void RunIteration(Worker& worker, PoolRig& rig, PoolUser& user, const IterationKind& kind,
                  double deviating) {
  Dice& dice = worker.dice();
  const std::size_t before = user.size();
  for (const Request& request : kind) {
    rig.faults().MaybeOrder(dice);
    if (dice.Chance(deviating)) {
      if (dice.Chance(0.5)) continue;
      user.Take(dice.Bytes(request.bytes * 2));
    }
    if (user.Take(request.bytes) && request.is_temporary) user.Free(user.size() - 1);
    if (user.size() > before && dice.Chance(0.1)) {
      user.CheckContents(before + dice.Below(user.size() - before));
    }
  }
  while (user.size() > before) user.Free(user.size() - 1);
}

void Mark(Worker& worker, Pool& pool) {
  worker.Begins("MarkIteration");
  pool.MarkIteration();
}

// Any number of threads, faults and sizes.
void RunFreely(Round& round, PoolRig& rig, const std::vector<IterationKind>& kinds) {
  const int threads = static_cast<int>(round.dice().Between(1, 3));
  const double deviating = round.dice().Chance(0.5) ? 0 : 0.03;
  const bool marks = round.dice().Chance(0.6);
  RunWorkers(round, threads, [&](Worker& worker) {
    PoolUser user(worker, rig.share());
    Dice& dice = worker.dice();
    for (int i = Steps(80 / threads); i > 0; --i) {
      // Permanent allocations, such as weights.
      if (dice.Chance(0.1) && user.size() < 10) user.Take(dice.Between(1, 2000));
      if (marks) Mark(worker, rig.pool());
      RunIteration(worker, rig, user, dice.Pick(kinds), deviating);
      rig.Inspect(worker, user);
    }
    user.FreeAll();
  });
}

// One thread, with marks, no faults and enough memory: requests that were repeated three times are
// then planned.
void RunExactly(Round& round, PoolRig& rig, const std::vector<IterationKind>& kinds) {
  RunWorkers(round, 1, [&](Worker& worker) {
    PoolUser user(worker, rig.share());
    for (int time = 0; time < 4; ++time) {
      for (const IterationKind& kind : kinds) {
        Mark(worker, rig.pool());
        const std::int64_t before = rig.pool().Stats().planned;
        RunIteration(worker, rig, user, kind, 0);
        const std::int64_t planned = rig.pool().Stats().planned - before;
        Check(time < 3 || planned == static_cast<std::int64_t>(kind.size()), "of ", kind.size(),
              " requests that came for the fourth time ", planned, " were served as planned");
        rig.pool().AwaitPlans();
      }
    }
  });
}

}  // namespace

void RunPlannedRound(Round& round) {
  Dice& dice = round.dice();
  PoolOptions options = AnyPoolOptions(dice);
  options.placement = "planned";
  options.remap = false;
  const bool is_exact = dice.Chance(0.3);
  if (is_exact) {
    options.most_plans = 6;
    // Plans that cross a border of segments are served elsewhere.
    options.memory = PoolMemory::kVirtual;
  }
  const std::vector<IterationKind> kinds =
      AnyKinds(dice, is_exact ? options.max_bytes / 8 : options.max_bytes * 3 / 2);
  auto plan = PlanOf(kinds[0], options.alignment);
  if (dice.Chance(0.4) && plan->height_bytes() <= options.max_bytes / 2) {
    options.plan = std::move(plan);
  }
  PoolRig rig(round, options, is_exact ? PoolRig::kQuiet : PoolRig::kAnything);
  if (is_exact) {
    RunExactly(round, rig, kinds);
  } else {
    RunFreely(round, rig, kinds);
  }
  rig.End();
}

}  // namespace tidepool::stress
