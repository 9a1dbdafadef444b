// SPDX-License-Identifier: Apache-2.0
// The addresses that are allocated now: no byte twice, and no more bytes than the budget.
#ifndef TIDEPOOL_TESTS_STRESS_LIVE_MAP_H_
#define TIDEPOOL_TESTS_STRESS_LIVE_MAP_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

#include "tests/stress/stress.h"

namespace tidepool::stress {

// Thread-safe. Memory is added after it was allocated, and removed before it is freed.
class LiveMap {
 public:
  explicit LiveMap(std::int64_t budget) : budget_(budget) {}

  void Add(const void* address, std::int64_t bytes) {
    const auto begin = reinterpret_cast<std::intptr_t>(address);
    const std::lock_guard lock(mutex_);
    const auto next = ends_.upper_bound(begin);
    Check(next == ends_.end() || begin + bytes <= next->first, "memory of ", bytes,
          " bytes was handed out that overlaps what lies after it and is live");
    Check(next == ends_.begin() || std::prev(next)->second <= begin, "memory of ", bytes,
          " bytes was handed out that overlaps what lies before it and is live");
    ends_.emplace_hint(next, begin, begin + bytes);
    live_bytes_ += bytes;
    Check(live_bytes_ <= budget_, "live are ", live_bytes_, " bytes, the budget is ", budget_);
  }
  void Remove(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find(reinterpret_cast<std::intptr_t>(address));
    Check(found != ends_.end(), "memory was to be freed that is not live");
    live_bytes_ -= found->second - found->first;
    ends_.erase(found);
  }

 private:
  const std::int64_t budget_;
  std::mutex mutex_;
  std::map<std::intptr_t, std::intptr_t> ends_;  // by their beginnings
  std::int64_t live_bytes_ = 0;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_LIVE_MAP_H_
