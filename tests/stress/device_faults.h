// SPDX-License-Identifier: Apache-2.0
// Faults of a host device: random calls of it fail.
#ifndef TIDEPOOL_TESTS_STRESS_DEVICE_FAULTS_H_
#define TIDEPOOL_TESTS_STRESS_DEVICE_FAULTS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/stress/stress.h"
#include "tidepool/host_device.h"

namespace tidepool::stress {

using Call = HostDevice::Call;
inline constexpr int kCalls = static_cast<int>(Call::kUnmap) + 1;

// All calls that can fail on order.
inline std::vector<Call> AllCalls() {
  std::vector<Call> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(static_cast<Call>(i));
  return calls;
}

// Orders faults. Thread-safe.
class DeviceFaults {
 public:
  // Draws the rate of faults: none in a third of the rounds, else high or low, for some calls or
  // for all.
  DeviceFaults(HostDevice& device, Round& round, bool may_fail = true)
      : device_(device), counts_(round.counts()), ordered_(kCalls) {
    Dice& dice = round.dice();
    if (!may_fail || dice.Chance(1.0 / 3)) return;
    chance_ = dice.Chance(0.5) ? 0.3 : 0.03;
    kinds_ = AllCalls();
    if (dice.Chance(0.3)) return;
    if (dice.Chance(0.5)) {
      kinds_ = {Call::kCopy, Call::kRecordEvent, Call::kWaitEvent, Call::kQueryEvent,
                Call::kCallHost};
    }
    std::vector<Call> some;
    for (int i = 0; i < 3; ++i) some.push_back(dice.Pick(kinds_));
    kinds_ = some;
  }

  bool are_wanted() const { return !kinds_.empty(); }
  // The errors that operations may return because of the faults; OK without faults.
  absl::StatusCode expected() const {
    return are_wanted() ? absl::StatusCode::kUnavailable : absl::StatusCode::kOk;
  }

  // Orders a fault now and then.
  void MaybeOrder(Dice& dice) {
    if (!are_wanted() || !dice.Chance(chance_)) return;
    const Call call = dice.Pick(kinds_);
    Order(call, dice.Between(1, dice.Chance(0.5) ? 4 : 40));
  }
  void Order(Call call, std::int64_t n) {
    const std::lock_guard lock(mutex_);
    CountIfMet(call);
    ordered_[static_cast<std::size_t>(call)] = device_.CountCalls(call) + n;
    device_.FailCall(call, n);
  }
  // Cancels orders that were not met.
  void End() {
    const std::lock_guard lock(mutex_);
    for (const Call call : AllCalls()) {
      CountIfMet(call);
      ordered_[static_cast<std::size_t>(call)] = 0;
      device_.FailCall(call, 0);
    }
  }

 private:
  void CountIfMet(Call call) {
    const std::int64_t ordered = ordered_[static_cast<std::size_t>(call)];
    if (ordered > 0 && device_.CountCalls(call) >= ordered) ++counts_.faults;
  }

  HostDevice& device_;
  Counts& counts_;
  std::vector<Call> kinds_;
  double chance_ = 0;
  std::mutex mutex_;
  std::vector<std::int64_t> ordered_;  // the count of the call that fails; 0: no order
};

// Repeats a call until the device does not fail. The round's own calls are not under test.
template <typename Function>
auto Again(Function function) {
  for (int i = 0; i < 1000; ++i) {
    auto result = function();
    if (result.ok()) return result;
    if constexpr (std::is_same_v<decltype(result), absl::Status>) {
      if (!absl::IsUnavailable(result)) return result;
    } else {
      if (!absl::IsUnavailable(result.status())) return result;
    }
  }
  Fail("the device failed a thousand times in a row");
}

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_DEVICE_FAULTS_H_
