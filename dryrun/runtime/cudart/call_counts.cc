// SPDX-License-Identifier: Apache-2.0
// An order is a future value of a count. Counts only grow, so each order is met at most once.
#include "dryrun/runtime/cudart/call_counts.h"

namespace tidepool::cudart_host {

int CallCounts::Enter(const char* function) {
  Counter& counter = CounterOf(function);
  const std::int64_t count = ++counter.count;
  const int error_of_any = ErrorOfAny();
  return count == counter.failing ? counter.error.load() : error_of_any;
}

void CallCounts::Note(std::string_view function) {
  const locks::MutexLock lock(&mutex_);
  ++Find(function).count;
}

std::int64_t CallCounts::Count(std::string_view function) const {
  const locks::MutexLock lock(&mutex_);
  std::int64_t count = 0;
  for (const auto& [name, counter] : counters_) {
    if (function.empty() || name == function) count += counter.count;
  }
  return count;
}

void CallCounts::Order(std::string_view function, std::int64_t n, int error) {
  const locks::MutexLock lock(&mutex_);
  if (function.empty()) {
    error_of_any_ = error;
    calls_until_failure_ = n;
    return;
  }
  Counter& counter = Find(function);
  counter.error = error;
  counter.failing = n <= 0 ? 0 : counter.count + n;
}

void CallCounts::Clear() {
  const locks::MutexLock lock(&mutex_);
  calls_until_failure_ = 0;
  for (auto& [name, counter] : counters_) {
    counter.failing = 0;
    counter.count = 0;
  }
}

int CallCounts::ErrorOfAny() {
  if (calls_until_failure_ <= 0) return 0;
  return calls_until_failure_-- == 1 ? error_of_any_.load() : 0;
}

CallCounts::Counter& CallCounts::CounterOf(const char* function) {
  if (Counter* const known = by_pointer_.Find(function)) return *known;
  const locks::MutexLock lock(&mutex_);
  Counter& counter = Find(function);
  if (by_pointer_.Find(function) == nullptr) by_pointer_.Add(function, &counter);
  return counter;
}

CallCounts::Counter& CallCounts::Find(std::string_view function) {
  const auto found = counters_.find(function);
  return found != counters_.end() ? found->second : counters_[std::string(function)];
}

}  // namespace tidepool::cudart_host
