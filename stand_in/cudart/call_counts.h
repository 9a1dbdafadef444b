// SPDX-License-Identifier: Apache-2.0
// Counts the calls of the stand-in by name, and decides which of them fail.
#ifndef TIDEPOOL_STAND_IN_CUDART_CALL_COUNTS_H_
#define TIDEPOOL_STAND_IN_CUDART_CALL_COUNTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "lib/locks/mutex.h"

namespace tidepool::cudart_host {

// The counters of all functions. The empty name stands for any function. Thread-safe.
class CallCounts {
 public:
  // Counts a call. Returns the error that it has to fail with, or 0.
  int Enter(std::string_view function);
  std::int64_t Count(std::string_view function) const;
  // Lets the n-th call from now on fail; replaces an earlier order for the function. 0 cancels it.
  void Order(std::string_view function, std::int64_t n, int error);
  void Clear();

 private:
  struct Counter {
    std::int64_t count = 0;
    std::int64_t failing = 0;  // the count of the call that fails, 0: no order
    int error = 0;
  };

  static int CountCall(Counter& counter);

  mutable locks::Mutex mutex_;
  std::map<std::string, Counter, std::less<>> counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_STAND_IN_CUDART_CALL_COUNTS_H_
