// Allocations that wait for memory, in the order in which they came. One for which there is room
// may overtake others, but each is overtaken only so often: then nobody passes it any more.
#ifndef TIDEPOOL_LIB_POOL_WAITING_LINE_H_
#define TIDEPOOL_LIB_POOL_WAITING_LINE_H_

#include <condition_variable>
#include <cstdint>
#include <list>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

struct Waiter {
  Waiter(std::int64_t wanted, Hint wanted_hint, Stream wanted_stream)
      : bytes(wanted), hint(wanted_hint), stream(wanted_stream) {}

  const std::int64_t bytes;  // as asked for
  const Hint hint;
  const Stream stream;
  int overtakes = 0;                            // how often others were served before it
  std::optional<absl::StatusOr<void*>> result;  // when it was served or refused
  std::condition_variable_any served;
};

// Not thread-safe.
class WaitingLine {
 public:
  bool empty() const { return waiters_.empty(); }
  // Waits in line until there is a result; false, and out of it, when there is none by the
  // deadline: who was behind may go then. `lock` is of the mutex that guards the line.
  template <typename Lock>
  bool Wait(Waiter& waiter, absl::Time deadline, Lock& lock) {
    waiters_.push_back(&waiter);
    const auto has_result = [&] { return waiter.result.has_value(); };
    if (deadline == absl::InfiniteFuture()) {
      waiter.served.wait(lock, has_result);
      return true;
    }
    if (waiter.served.wait_until(lock, absl::ToChronoTime(deadline), has_result)) return true;
    waiters_.remove(&waiter);
    return false;
  }

  // Whether nobody else may be served before the first. Earlier waiters were overtaken at least as
  // often as later ones.
  bool IsClosed() const {
    return !waiters_.empty() && waiters_.front()->overtakes >= Pool::kMostOvertakes;
  }
  // Somebody who does not wait was served.
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
      if (waiter.result->ok()) {
        for (auto passed = waiters_.begin(); passed != it; ++passed) ++(*passed)->overtakes;
      }
      it = waiters_.erase(it);
      waiter.served.notify_one();
      if (it != waiters_.begin() && IsClosed()) return;
    }
  }

 private:
  std::list<Waiter*> waiters_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_WAITING_LINE_H_
