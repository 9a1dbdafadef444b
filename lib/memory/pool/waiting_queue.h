// SPDX-License-Identifier: Apache-2.0
// WaitingQueue: requests that wait for memory, by priority, and in the order in which they came. A
// request for which there is room may overtake those before it, each of them only
// Pool::kMostOvertakes times.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_WAITING_QUEUE_H_
#define TIDEPOOL_LIB_MEMORY_POOL_WAITING_QUEUE_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/pool/backoff_mutex.h"
#include "tidepool/device.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// A request as the caller made it.
struct WantedMemory {
  std::int64_t bytes = 0;
  Hint hint = Hint::kResident;
  Stream stream;
};

// The end of a wait that no free ends.
struct WaitEnd {
  locks::SteadyTime deadline;
  std::stop_token stop = {};
};

struct Waiter {
  explicit Waiter(const WantedMemory& request, int request_priority = 0)
      : wanted(request), priority(request_priority) {}

  // Makes the waiter's thread look for memory by itself, at once.
  void AlertAndWake() {
    is_alerted = true;
    is_alerted_by_frees = false;
    woken.notify_one();
  }

  // Whether it is refused: it looked, and was not alerted since.
  bool IsRefused() const { return is_hopeless && !is_alerted; }
  // Whether no later request of the queue may be served first.
  bool IsExhausted() const { return overtakes >= Pool::kMostOvertakes; }

  const WantedMemory wanted;
  const int priority;                // a request that does not wait has 0
  int overtakes = 0;                 // how often later requests of the queue were served first
  bool is_looking = false;           // its thread looks for memory, so no other thread may serve it
  bool is_asleep = false;            // its thread sleeps, or was just woken
  bool is_alerted = false;           // its thread must look once more, when it wakes
  bool is_alerted_by_frees = false;  // it was alerted for the room that frees left, and only so
  bool is_hopeless = false;          // it found no room, and no free will come that makes some
  bool is_deferred = false;  // it leaves room to a waiter of higher priority, which looks before it
  std::optional<absl::StatusOr<void*>> result;  // set by the thread that served or refused it
  std::condition_variable_any woken;
};

// No other process is asked: calls of this one alone serve the queue.
struct NeverAsks {
  locks::SteadyTime operator()() const { return locks::SteadyTime::max(); }
};

// Not thread-safe: the books' mutex of a pool guards the queue and its waiters.
class WaitingQueue {
 public:
  bool empty() const { return waiters_.empty(); }

  // Lets the thread of a waiter look for memory until it has a result: at once, whenever it is
  // alerted, and at the end. Returns nothing when the end came without a result, and when the
  // waiter is refused. `look()` returns null when there is no room. After that,
  // `make_room(is_last)` returns whether to look again; `is_last`: else the request ends.
  // `sleeps()` is called before the thread sleeps, and returns when it wakes at the latest.
  // `asks()` is called before and while it sleeps: it may alert waiters, and returns when to call
  // it again. All may release the mutex, but for `sleeps`. The waiter is queued before it looks, so
  // it misses no free.
  template <typename Look, typename MakeRoom, typename Sleeps, typename Asks = NeverAsks>
  std::optional<absl::StatusOr<void*>> Wait(Waiter& waiter, const WaitEnd& end, BackoffMutex& mutex,
                                            Look look, MakeRoom make_room, Sleeps sleeps,
                                            Asks asks = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Insert(waiter);
    for (bool is_late = end.stop.stop_requested(); !waiter.result.has_value();) {
      LookWhileAlerted(waiter, look);
      if (waiter.result.has_value()) break;
      if (make_room(is_late || waiter.is_hopeless)) continue;
      if (waiter.result.has_value() || is_late || waiter.IsRefused()) break;
      is_late = IsLateAfterSleep(waiter, end, sleeps(), mutex, asks);
    }
    Leave(waiter);
    return std::move(waiter.result);
  }

  // Whether no request may be served that does not wait.
  bool IsClosed() const { return !waiters_.empty() && !MayServe(nullptr); }
  // Whether a waiter may be served now; null stands for a request that does not wait.
  bool MayServe(const Waiter* waiter) const {
    for (const Waiter* const before : waiters_) {
      if (before == waiter || (waiter == nullptr && before->priority < 0)) return true;
      if (before->IsExhausted()) return false;
    }
    return true;
  }
  // Whether a waiter that looked and found no room finds none later, since no free will come. Not
  // while it may not be served or must look again.
  bool IsHopeless(const Waiter& waiter, bool has_live) const {
    return !has_live && !waiter.is_alerted && MayServe(&waiter);
  }
  // Alerts waiters of a priority below a bound. Their threads sleep on until WakeFirst.
  void Alert(std::int64_t below) {
    for (Waiter* const waiter : waiters_) {
      if (waiter->priority >= below) continue;
      waiter->is_alerted = true;
      waiter->is_alerted_by_frees = false;
    }
  }
  // Alerts waiters that want at most `room`, which frees left.
  void AlertByFree(std::int64_t room) {
    for (Waiter* const waiter : waiters_) {
      if (waiter->wanted.bytes > room || waiter->is_alerted) continue;
      waiter->is_alerted = waiter->is_alerted_by_frees = true;
    }
  }
  // Withdraws the alerts of frees from waiters that want more than `room`, which is left of it.
  // Returns the priority of the first one that is alerted and sleeps.
  std::optional<int> FirstAlerted(std::int64_t room) {
    for (Waiter* const waiter : waiters_) {
      if (!waiter->is_alerted || !waiter->is_asleep) continue;
      if (!waiter->is_alerted_by_frees || waiter->wanted.bytes <= room) return waiter->priority;
      waiter->is_alerted = false;
    }
    return std::nullopt;
  }
  void WakeFirst() {
    const auto first = std::ranges::find_if(
        waiters_, [](const Waiter* waiter) { return waiter->is_alerted && waiter->is_asleep; });
    if (first != waiters_.end()) (*first)->woken.notify_one();
  }
  // Whether a waiter of higher priority looks for memory or is about to.
  bool HasAlertedAbove(int priority) const {
    return std::ranges::any_of(waiters_, [priority](const Waiter* waiter) {
      return waiter->priority > priority && (waiter->is_alerted || waiter->is_looking);
    });
  }
  // Counts the waiters that sleep and were not alerted: for tests.
  std::int64_t CountAsleep() const {
    return std::ranges::count_if(
        waiters_, [](const Waiter* waiter) { return !waiter->is_looking && !waiter->is_alerted; });
  }
  // Returns how often threads of waiters looked for memory: for tests.
  std::int64_t looks() const { return looks_; }
  // Counts that a request that does not wait was served.
  void CountOvertake() {
    CountOvertakesBefore(
        std::ranges::find_if(waiters_, [](const Waiter* waiter) { return waiter->priority < 0; }));
  }

  // Tries each waiter in turn. `serve(waiter)` sets its result, or leaves it empty when there is no
  // room. A waiter that looks for memory itself is told to look once more instead.
  template <typename Serve>
  void ServeAll(Serve serve) {
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      Waiter& waiter = **it;
      if (waiter.is_looking) {
        waiter.AlertAndWake();
      } else {
        serve(waiter);
      }
      if (!waiter.result.has_value()) {
        if (waiter.IsExhausted()) return;
        ++it;
        continue;
      }
      if (waiter.result->ok()) CountOvertakesBefore(it);
      it = waiters_.erase(it);
      waiter.woken.notify_one();
      if (std::any_of(waiters_.begin(), it, [](Waiter* w) { return w->IsExhausted(); })) return;
    }
  }

 private:
  using Waiters = std::list<Waiter*>;

  void Insert(Waiter& waiter) {
    const auto last = std::find_if(waiters_.rbegin(), waiters_.rend(), [&](const Waiter* other) {
      return other->priority >= waiter.priority;
    });
    waiters_.insert(last.base(), &waiter);
  }

  // Looks again when the waiter was alerted meanwhile: the first look may not have seen the room.
  template <typename Look>
  void LookWhileAlerted(Waiter& waiter, Look look) {
    do {
      waiter.is_alerted = waiter.is_hopeless = false;
      if (!MayServe(&waiter)) return;
      waiter.is_looking = true;
      ++looks_;
      absl::StatusOr<void*> address = look();
      waiter.is_looking = false;
      if (!address.ok() || *address != nullptr) waiter.result = std::move(address);
    } while (waiter.is_alerted && !waiter.result.has_value());
  }

  // Sleeps until the waiter was served, refused or alerted, or until a time. Returns whether the
  // end came before. The wait releases the mutex and takes it again.
  template <typename Asks>
  static bool IsLateAfterSleep(Waiter& waiter, const WaitEnd& end, locks::SteadyTime most,
                               BackoffMutex& mutex, Asks asks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto is_woken = [&] { return waiter.result.has_value() || waiter.is_alerted; };
    waiter.is_asleep = true;
    const absl::Cleanup wakes = [&waiter] { waiter.is_asleep = false; };
    const locks::SteadyTime until = std::min(end.deadline, most);
    for (;;) {
      const locks::SteadyTime pause = std::min(until, asks());
      // Others may alert the waiter without end.
      if (end.stop.stop_requested() || locks::SteadyNow() >= end.deadline) return true;
      // Also without an end: `wait` of GCC 12 needs a symbol that libstdc++ of GCC 11 does not
      // have.
      if (waiter.woken.wait_until(mutex, end.stop, pause, is_woken)) return false;
      if (end.stop.stop_requested() || pause == until) break;
    }
    return end.stop.stop_requested() || until == end.deadline;
  }

  // Another thread that served the waiter has taken it out already.
  void Leave(const Waiter& waiter) {
    const auto position = std::ranges::find(waiters_, &waiter);
    if (position == waiters_.end()) return;
    if (waiter.result.has_value() && waiter.result->ok()) CountOvertakesBefore(position);
    waiters_.erase(position);
  }

  void CountOvertakesBefore(Waiters::iterator served) {
    for (auto passed = waiters_.begin(); passed != served; ++passed) ++(*passed)->overtakes;
  }

  Waiters waiters_;
  std::int64_t looks_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_WAITING_QUEUE_H_
