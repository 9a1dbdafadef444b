// A count only grows, so that an order, which is a count to come, is met once at most.
#include "tests/support/cudart_host/call_counts.h"

namespace tidepool::cudart_host {

int CallCounts::Enter(std::string_view function) {
  const std::lock_guard lock(mutex_);
  const int error_of_any = CountOne(counters_[std::string()]);
  const int error = CountOne(counters_[std::string(function)]);
  return error != 0 ? error : error_of_any;
}

std::int64_t CallCounts::Count(std::string_view function) const {
  const std::lock_guard lock(mutex_);
  const auto found = counters_.find(function);
  return found == counters_.end() ? 0 : found->second.count;
}

void CallCounts::Order(std::string_view function, std::int64_t n, int error) {
  const std::lock_guard lock(mutex_);
  Counter& counter = counters_[std::string(function)];
  counter.failing = n <= 0 ? 0 : counter.count + n;
  counter.error = error;
}

void CallCounts::Clear() {
  const std::lock_guard lock(mutex_);
  counters_.clear();
}

int CallCounts::CountOne(Counter& counter) {
  ++counter.count;
  return counter.count == counter.failing ? counter.error : 0;
}

}  // namespace tidepool::cudart_host
