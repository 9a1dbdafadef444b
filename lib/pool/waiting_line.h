// Allocations that wait for memory, in the order in which they came. One for which there is room
// may overtake others, but each is overtaken only so often: then none passes it any more.
#ifndef TIDEPOOL_LIB_POOL_WAITING_LINE_H_
#define TIDEPOOL_LIB_POOL_WAITING_LINE_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

struct Waiter {
  Waiter(std::int64_t wanted, Hint wanted_hint, Stream wanted_stream)
      : bytes(wanted), hint(wanted_hint), stream(wanted_stream) {}

  // Makes its thread look for memory by itself.
  void Call() {
    is_called = true;
    woken.notify_one();
  }

  const std::int64_t bytes;  // as asked for
  const Hint hint;
  const Stream stream;
  int overtakes = 0;        // how often others were served before it
  bool is_looking = false;  // its thread looks for memory, and must not be served by another
  bool is_called = false;   // and is to look once more
  std::optional<absl::StatusOr<void*>> result;  // when another thread served or refused it
  std::condition_variable_any woken;
};

// Not thread-safe: the mutex of a pool guards it, and its waiters.
class WaitingLine {
 public:
  bool empty() const { return waiters_.empty(); }

  // Lets the thread of a waiter look for memory until it has a result: when it comes, whenever it
  // is called, and on its deadline. Empty when there was none by then. `look()` returns null when
  // there is no room; it may release the mutex, whose `lock` is held. `sleeps()` is called before
  // the thread sleeps for the first time. The waiter is in line before it looks, so that it misses
  // no free meanwhile.
  template <typename Lock, typename Look, typename Sleeps>
  std::optional<absl::StatusOr<void*>> Wait(Waiter& waiter, absl::Time deadline, Lock& lock,
                                            Look look, Sleeps sleeps) {
    waiters_.push_back(&waiter);
    for (bool is_late = false, has_slept = false;;) {
      LookWhileCalled(waiter, look);
      if (waiter.result.has_value() || is_late) break;
      if (!std::exchange(has_slept, true)) sleeps();
      is_late = !Sleep(waiter, deadline, lock);
      if (waiter.result.has_value()) return std::move(waiter.result);  // it is out of the line
    }
    const auto place = std::find(waiters_.begin(), waiters_.end(), &waiter);
    if (waiter.result.has_value() && waiter.result->ok()) CountOvertakesBefore(place);
    waiters_.erase(place);
    return std::move(waiter.result);
  }

  // Whether only the first may be served. Earlier waiters were overtaken at least as often as later
  // ones.
  bool IsClosed() const {
    return !waiters_.empty() && waiters_.front()->overtakes >= Pool::kMostOvertakes;
  }
  // Whether a waiter may be served now, or a request that does not wait when it is null.
  bool MayServe(const Waiter* waiter) const { return !IsClosed() || waiter == waiters_.front(); }
  // How many threads sleep in line and were not called: for tests.
  std::int64_t CountAsleep() const {
    return std::ranges::count_if(
        waiters_, [](const Waiter* waiter) { return !waiter->is_looking && !waiter->is_called; });
  }
  // Counts that a request that does not wait was served.
  void CountOvertake() {
    for (Waiter* waiter : waiters_) ++waiter->overtakes;
  }

  // Tries each in turn. `serve(waiter)` sets its result, or leaves it empty when there is no room.
  template <typename Serve>
  void ServeAll(Serve serve) {
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      Waiter& waiter = **it;
      serve(waiter);
      if (!waiter.result.has_value()) {
        if (waiter.overtakes >= Pool::kMostOvertakes) return;
        ++it;
        continue;
      }
      if (waiter.result->ok()) CountOvertakesBefore(it);
      it = waiters_.erase(it);
      waiter.woken.notify_one();
      if (it != waiters_.begin() && IsClosed()) return;
    }
  }

 private:
  using Waiters = std::list<Waiter*>;

  // Again when it was called meanwhile: there may be room that the first look did not see.
  template <typename Look>
  void LookWhileCalled(Waiter& waiter, Look look) const {
    do {
      waiter.is_called = false;
      if (!MayServe(&waiter)) return;
      waiter.is_looking = true;
      absl::StatusOr<void*> address = look();
      waiter.is_looking = false;
      if (!address.ok() || *address != nullptr) waiter.result = std::move(address);
    } while (waiter.is_called && !waiter.result.has_value());
  }

  // Until the waiter was served, refused or called. False when the deadline came first.
  template <typename Lock>
  static bool Sleep(Waiter& waiter, absl::Time deadline, Lock& lock) {
    const auto is_woken = [&] { return waiter.result.has_value() || waiter.is_called; };
    if (deadline == absl::InfiniteFuture()) {
      waiter.woken.wait(lock, is_woken);
      return true;
    }
    return waiter.woken.wait_until(lock, absl::ToChronoTime(deadline), is_woken);
  }

  void CountOvertakesBefore(Waiters::iterator served) {
    for (auto passed = waiters_.begin(); passed != served; ++passed) ++(*passed)->overtakes;
  }

  Waiters waiters_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_WAITING_LINE_H_
