// SPDX-License-Identifier: Apache-2.0
// The counts of torch.cuda.memory_stats that the pool does not keep.
#ifndef TIDEPOOL_BINDINGS_TORCH_COUNTS_H_
#define TIDEPOOL_BINDINGS_TORCH_COUNTS_H_

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>

#include "tidepool/tidepool.h"

namespace tidepool::torch_binding {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

// PyTorch calls requests of up to 1 MiB small, and counts them apart.
inline StatType KindOf(std::size_t bytes) {
  return bytes <= (1U << 20) ? StatType::SMALL_POOL : StatType::LARGE_POOL;
}

template <typename Change>
void ForBoth(StatArray& stats, StatType kind, Change change) {
  change(stats[static_cast<std::size_t>(StatType::AGGREGATE)]);
  change(stats[static_cast<std::size_t>(kind)]);
}

// The requests of one device. Memory is active from its request until its free: the pool orders
// streams, so a free needs no waiting. Not thread-safe.
class Counts {
 public:
  void Allocated(std::size_t requested, std::size_t bytes) {
    Change(requested, bytes, [](Stat& stat, std::size_t amount) { stat.increase(amount); });
  }
  void Freed(std::size_t requested, std::size_t bytes) {
    Change(requested, bytes, [](Stat& stat, std::size_t amount) { stat.decrease(amount); });
  }
  void Retried() { ++stats_.num_alloc_retries; }
  void RanOut() { ++stats_.num_ooms; }

  void ResetPeaks() {
    ForEach([](Stat& stat) { stat.reset_peak(); });
  }
  void ResetAccumulated() {
    ForEach([](Stat& stat) { stat.reset_accumulated(); });
    stats_.num_alloc_retries = 0;
    stats_.num_ooms = 0;
  }

  // Returns all statistics: with the memory that the pool holds.
  DeviceStats With(const tidepool_statistics& pool) const {
    DeviceStats stats = stats_;
    const auto set = [](StatArray& array, std::size_t current, std::size_t peak) {
      Stat& stat = array[static_cast<std::size_t>(StatType::AGGREGATE)];
      stat.current = static_cast<std::int64_t>(current);
      stat.peak = static_cast<std::int64_t>(peak);
    };
    set(stats.reserved_bytes, pool.reserved_bytes, pool.peak_reserved_bytes);
    set(stats.inactive_split_bytes, pool.free_bytes, pool.free_bytes);
    set(stats.segment, pool.reserved_bytes == 0 ? 0 : 1, pool.peak_reserved_bytes == 0 ? 0 : 1);
    stats.num_device_alloc = static_cast<std::int64_t>(pool.growths);
    stats.active = stats.allocation;
    stats.active_bytes = stats.allocated_bytes;
    return stats;
  }

 private:
  template <typename Apply>
  void Change(std::size_t requested, std::size_t bytes, Apply apply) {
    const StatType kind = KindOf(requested);
    ForBoth(stats_.allocation, kind, [&](Stat& stat) { apply(stat, 1); });
    ForBoth(stats_.allocated_bytes, kind, [&](Stat& stat) { apply(stat, bytes); });
    ForBoth(stats_.requested_bytes, kind, [&](Stat& stat) { apply(stat, requested); });
  }
  template <typename Apply>
  void ForEach(Apply apply) {
    for (StatArray* array :
         {&stats_.allocation, &stats_.allocated_bytes, &stats_.requested_bytes}) {
      for (Stat& stat : *array) apply(stat);
    }
  }

  DeviceStats stats_;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_COUNTS_H_
