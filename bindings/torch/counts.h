// SPDX-License-Identifier: Apache-2.0
// The counts of torch.cuda.memory_stats that the pool does not keep.
#ifndef TIDEPOOL_BINDINGS_TORCH_COUNTS_H_
#define TIDEPOOL_BINDINGS_TORCH_COUNTS_H_

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tidepool/c_api.h"

namespace tidepool::torch_binding {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

// Sums over requests.
struct Amounts {
  std::int64_t requests = 0;
  std::int64_t bytes = 0;      // rounded up
  std::int64_t requested = 0;  // bytes as the program asked for them
};

inline Amounts operator+(const Amounts& a, const Amounts& b) {
  return {a.requests + b.requests, a.bytes + b.bytes, a.requested + b.requested};
}
inline Amounts operator-(const Amounts& a, const Amounts& b) {
  return {a.requests - b.requests, a.bytes - b.bytes, a.requested - b.requested};
}
// Sets each field of `most` to that of `now` if it is larger. In a training loop it seldom is.
inline void Raise(Amounts& most, const Amounts& now) {
  if (now.requests > most.requests) [[unlikely]]
    most.requests = now.requests;
  if (now.bytes > most.bytes) [[unlikely]]
    most.bytes = now.bytes;
  if (now.requested > most.requested) [[unlikely]]
    most.requested = now.requested;
}

// The requests of one device. Memory is active from its request until its free: the pool orders
// streams, so a free needs no waiting. Every request of a program is counted here, so a count is a
// few additions. Not thread-safe.
class Counts {
 public:
  void Allocated(std::size_t requested, std::size_t bytes) {
    Kind& kind = KindOf(requested);
    kind.allocated = kind.allocated + AmountsOf(requested, bytes);
    Raise(kind.peak, kind.live());
    Raise(peak_, small_.live() + large_.live());
  }
  void Freed(std::size_t requested, std::size_t bytes) {
    Kind& kind = KindOf(requested);
    kind.freed = kind.freed + AmountsOf(requested, bytes);
  }
  void Retried() { ++retries_; }
  void RanOut() { ++ooms_; }

  void ResetPeaks() {
    for (Kind* kind : {&small_, &large_}) kind->peak = kind->live();
    peak_ = small_.live() + large_.live();
  }
  void ResetAccumulated() {
    for (Kind* kind : {&small_, &large_}) {
      kind->forgotten_allocated = kind->allocated;
      kind->forgotten_freed = kind->freed;
    }
    retries_ = 0;
    ooms_ = 0;
  }

  // Returns all statistics: with the memory that the pool holds.
  DeviceStats With(const tidepool_statistics& pool) const {
    DeviceStats stats;
    stats.allocation = ArrayOf(&Amounts::requests);
    stats.allocated_bytes = ArrayOf(&Amounts::bytes);
    stats.requested_bytes = ArrayOf(&Amounts::requested);
    stats.active = stats.allocation;
    stats.active_bytes = stats.allocated_bytes;
    const auto set = [](StatArray& array, std::size_t current, std::size_t peak) {
      Stat& stat = array[static_cast<std::size_t>(StatType::AGGREGATE)];
      stat.current = static_cast<std::int64_t>(current);
      stat.peak = static_cast<std::int64_t>(peak);
    };
    set(stats.reserved_bytes, pool.reserved_bytes, pool.peak_reserved_bytes);
    set(stats.inactive_split_bytes, pool.free_bytes, pool.free_bytes);
    set(stats.segment, pool.reserved_bytes == 0 ? 0 : 1, pool.peak_reserved_bytes == 0 ? 0 : 1);
    stats.num_device_alloc = static_cast<std::int64_t>(pool.growths);
    stats.num_alloc_retries = retries_;
    stats.num_ooms = ooms_;
    return stats;
  }

 private:
  // Sums since the beginning, and those that ResetAccumulated hides.
  struct Kind {
    Amounts allocated;
    Amounts freed;
    Amounts peak;
    Amounts forgotten_allocated;
    Amounts forgotten_freed;

    Amounts live() const { return allocated - freed; }
  };

  // PyTorch calls requests of up to 1 MiB small, and counts them apart.
  Kind& KindOf(std::size_t bytes) { return bytes <= (1U << 20) ? small_ : large_; }

  static Amounts AmountsOf(std::size_t requested, std::size_t bytes) {
    return {1, static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(requested)};
  }

  StatArray ArrayOf(std::int64_t Amounts::*field) const {
    Stat all;
    StatArray stats;
    for (const auto& [kind, type] :
         {std::pair(&small_, StatType::SMALL_POOL), std::pair(&large_, StatType::LARGE_POOL)}) {
      Stat& stat = stats[static_cast<std::size_t>(type)];
      stat.current = kind->live().*field;
      stat.peak = kind->peak.*field;
      stat.allocated = (kind->allocated - kind->forgotten_allocated).*field;
      stat.freed = (kind->freed - kind->forgotten_freed).*field;
      all.current += stat.current;
      all.allocated += stat.allocated;
      all.freed += stat.freed;
    }
    all.peak = peak_.*field;
    stats[static_cast<std::size_t>(StatType::AGGREGATE)] = all;
    return stats;
  }

  Kind small_;
  Kind large_;
  Amounts peak_;  // of both together
  std::int64_t retries_ = 0;
  std::int64_t ooms_ = 0;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_COUNTS_H_
