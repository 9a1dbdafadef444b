// SPDX-License-Identifier: Apache-2.0
// Counts the calls of the stand-in by name, and decides which of them fail.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_COUNTS_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_COUNTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/locks/mutex.h"
#include "lib/base/locks/pointer_table.h"

namespace tidepool::cudart_host {

// The counters of all functions. The empty name stands for any function. Thread-safe.
class CallCounts {
 public:
  // Counts a call. Returns the error that it has to fail with, or 0. The name must live for ever,
  // as a literal does. Takes no lock if it was called with the same pointer before: a program may
  // call cudaGetDevice for every tensor.
  int Enter(const char* function);
  // Counts a call that cannot fail on order. The name need not live.
  void Note(std::string_view function);
  std::int64_t Count(std::string_view function) const;
  // Lets the n-th call from now on fail; replaces an earlier order for the function. 0 cancels it.
  void Order(std::string_view function, std::int64_t n, int error);
  void Clear();

 private:
  struct Counter {
    std::atomic<std::int64_t> count = 0;
    std::atomic<std::int64_t> failing = 0;  // the count of the call that fails, 0: no order
    std::atomic<int> error = 0;
  };

  int ErrorOfAny();
  Counter& CounterOf(const char* function);
  Counter& Find(std::string_view function) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable locks::Mutex mutex_;
  std::map<std::string, Counter, std::less<>> counters_ ABSL_GUARDED_BY(mutex_);
  locks::PointerTable<Counter> by_pointer_;            // read without a lock, changed under mutex_
  std::atomic<std::int64_t> calls_until_failure_ = 0;  // of any function, 0: no order
  std::atomic<int> error_of_any_ = 0;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_COUNTS_H_
