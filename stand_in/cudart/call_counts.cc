// SPDX-License-Identifier: Apache-2.0
// An order is a future value of a count. Counts only grow, so each order is met at most once.
#include "stand_in/cudart/call_counts.h"

namespace tidepool::cudart_host {

int CallCounts::Enter(std::string_view function) {
  const locks::MutexLock lock(&mutex_);
  const int error_of_any = CountCall(counters_[std::string()]);
  const int error = CountCall(counters_[std::string(function)]);
  return error != 0 ? error : error_of_any;
}

std::int64_t CallCounts::Count(std::string_view function) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = counters_.find(function);
  return found == counters_.end() ? 0 : found->second.count;
}

void CallCounts::Order(std::string_view function, std::int64_t n, int error) {
  const locks::MutexLock lock(&mutex_);
  Counter& counter = counters_[std::string(function)];
  counter.failing = n <= 0 ? 0 : counter.count + n;
  counter.error = error;
}

void CallCounts::Clear() {
  const locks::MutexLock lock(&mutex_);
  counters_.clear();
}

int CallCounts::CountCall(Counter& counter) {
  ++counter.count;
  return counter.count == counter.failing ? counter.error : 0;
}

}  // namespace tidepool::cudart_host
