// SPDX-License-Identifier: Apache-2.0
// The pool: threads that allocate, use and free memory of all sizes on streams that are created and
// destroyed, while other threads trim it, query it and take the device's memory away.
#include <atomic>
#include <thread>

#include "tests/stress/device_faults.h"
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
  // A thread without allocations may wait for ever: threads with allocations free them in the end.
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

// One thread waits for memory while the device is full. When the device has room again, memory that
// the pool takes for other threads serves the first waiter too.
class WaiterScene {
 public:
  WaiterScene(PoolRig& rig, std::int64_t bytes) : rig_(rig), bytes_(bytes) {}

  void Wait(Worker& worker) {
    PoolUser user(worker, rig_.share());
    may_wait_.wait(false);
    user.TakeBlocking(bytes_, absl::InfiniteFuture());
    has_ended_ = true;
    user.FreeAll();
  }
  void Serve(Worker& worker) {
    Dice& dice = worker.dice();
    PoolUser user(worker, rig_.share());
    user.Take(dice.Between(1, rig_.budget() / 2));
    while (user.size() > 0 && user.Take(bytes_) && dice.Chance(0.3)) {
    }
    rig_.FillDevice();
    const std::int64_t blocked = rig_.pool().Stats().blocked;
    may_wait_ = true;
    may_wait_.notify_one();
    while (!has_ended_ && rig_.pool().Stats().blocked == blocked) std::this_thread::yield();
    rig_.GiveAllToDevice();
    for (int i = 0; i < 3; ++i) {
      const std::size_t choice = dice.Below(3);
      if (choice == 0) user.Take(dice.Between(1, bytes_));
      if (choice == 1) CheckOk(rig_.pool().Trim().status(), "Trim");
      if (choice == 2) rig_.pool().MarkIteration();
      worker.Begins("wait until another thread has the memory that it waits for");
      while (!has_ended_ && HasRoom()) std::this_thread::yield();
    }
    user.FreeAll();
  }

 private:
  bool HasRoom() { return rig_.pool().Stats().largest_hole_bytes >= bytes_ + 512; }

  PoolRig& rig_;
  const std::int64_t bytes_;
  std::atomic<bool> may_wait_ = false;
  std::atomic<bool> has_ended_ = false;
};

void RunWaiter(Round& round, PoolRig& rig) {
  rig.faults().End();
  rig.GiveAllToDevice();
  CheckOk(rig.pool().Trim().status(), "Trim");
  WaiterScene scene(rig, round.dice().Between(1, rig.budget() / 8));
  std::atomic<int> next = 0;
  RunWorkers(round, 2, [&](Worker& worker) {
    if (next++ == 0) {
      scene.Wait(worker);
    } else {
      scene.Serve(worker);
    }
  });
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
  // Remapping and rounding to granules need additional memory.
  for (int i = 0; i < 3 && !rig.remaps(); ++i) RunWaiter(round, rig);
  rig.End();
}

}  // namespace tidepool::stress
