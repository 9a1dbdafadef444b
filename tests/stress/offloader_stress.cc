// SPDX-License-Identifier: Apache-2.0
// The offloader: threads with buffers that leave the device and come back, compressed or not, next
// to threads that use the same pool.
#include "tests/stress/offloader_rig.h"
#include "tests/stress/offloader_user.h"
#include "tests/stress/pool_user.h"
#include "tests/stress/stress.h"

namespace tidepool::stress {
namespace {

void UseOffloader(Worker& worker, OffloaderRig& rig, BufferNames& names, int steps, bool leaves) {
  OffloaderUser user(worker, rig, names);
  for (int i = 0; i < steps; ++i) user.Step();
  if (leaves) {
    user.Leave();
  } else {
    user.End();
  }
}

// Small and short-lived allocations of other users of the pool, which leave room for buffers.
void UsePool(Worker& worker, PoolRig& rig, int steps) {
  PoolUser user(worker, rig.share());
  Dice& dice = worker.dice();
  for (int i = 0; i < steps; ++i) {
    if (dice.Chance(0.1)) rig.Inspect(worker, user);
    if (user.size() < 8 && dice.Chance(0.5)) {
      user.Take(dice.Bytes(rig.budget() / 16));
    } else if (user.size() > 0) {
      user.Free(dice.Below(user.size()));
    }
  }
  user.FreeAll();
}

}  // namespace

void RunOffloaderRound(Round& round) {
  Dice& dice = round.dice();
  OffloaderRig rig(round, AnyPoolOptions(dice));
  BufferNames names = {};
  const int threads = static_cast<int>(dice.Between(1, 6));
  const int pool_threads = static_cast<int>(dice.Between(0, 2));
  const int steps = Steps(2000) / (threads + pool_threads);
  const bool leaves = dice.Chance(0.2);
  std::atomic<int> next = 0;
  RunWorkers(round, threads + pool_threads, [&](Worker& worker) {
    if (next++ < pool_threads) {
      UsePool(worker, rig.pool(), steps);
    } else {
      UseOffloader(worker, rig, names, steps, leaves);
    }
  });
  rig.End();
}

}  // namespace tidepool::stress
