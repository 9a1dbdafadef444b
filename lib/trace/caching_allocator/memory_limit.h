// SPDX-License-Identifier: Apache-2.0
// Memory limit: compares bytes with the memory of the device, and remembers the smallest memory for
// which an answer would have differed.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_MEMORY_LIMIT_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_MEMORY_LIMIT_H_

#include <cstdint>

#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

// All limits grow with the memory. So an answer "it fits" holds for any larger memory, and an
// answer "it does not" holds for memory below next().
class MemoryLimit {
 public:
  static constexpr std::int64_t kNever = INT64_MAX;

  MemoryLimit(std::int64_t memory_bytes, const CachingAllocatorSettings& settings)
      : memory_bytes_(memory_bytes),
        fraction_(settings.memory_fraction),
        threshold_(settings.garbage_collection_threshold) {}

  // Whether the device has `bytes`.
  bool DeviceHas(std::int64_t bytes) {
    return Ask(bytes, [](std::int64_t memory) { return memory; });
  }
  // Whether the process may take `bytes`.
  bool IsAllowed(std::int64_t bytes) {
    return fraction_ == 0 || Ask(bytes, [this](std::int64_t memory) { return Allowed(memory); });
  }
  bool CollectsGarbage() const { return fraction_ > 0 && threshold_ > 0; }
  // Whether `bytes` are too few for a garbage collection.
  bool IsBelowThreshold(std::int64_t bytes) {
    return Ask(bytes, [this](std::int64_t memory) { return Threshold(memory); });
  }

  std::int64_t memory_bytes() const { return memory_bytes_; }
  // Changes the memory to a larger one; next() stays.
  void SetMemory(std::int64_t memory_bytes) { memory_bytes_ = memory_bytes; }
  // The smallest memory for which an answer so far would have differed.
  std::int64_t next() const { return next_; }

 private:
  std::int64_t Allowed(std::int64_t memory) const {
    return static_cast<std::int64_t>(fraction_ * static_cast<double>(memory));
  }
  std::int64_t Threshold(std::int64_t memory) const {
    return static_cast<std::int64_t>(threshold_ * static_cast<double>(Allowed(memory)));
  }

  // Whether `limit_of` the memory, which grows with it, is at least `bytes`.
  template <typename LimitOf>
  bool Ask(std::int64_t bytes, const LimitOf& limit_of) {
    if (limit_of(memory_bytes_) >= bytes) return true;
    std::int64_t fails = memory_bytes_;
    std::int64_t holds = next_ == kNever ? kMostCachingMemory : next_;
    if (limit_of(holds) < bytes) return false;
    while (holds - fails > 1) {
      const std::int64_t middle = fails + (holds - fails) / 2;
      (limit_of(middle) >= bytes ? holds : fails) = middle;
    }
    next_ = holds;
    return false;
  }

  std::int64_t memory_bytes_;
  double fraction_;
  double threshold_;
  std::int64_t next_ = kNever;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_MEMORY_LIMIT_H_
