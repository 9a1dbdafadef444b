// SPDX-License-Identifier: Apache-2.0
// Owners: the allocations of a pool that were made under a name, counted by name.
#ifndef TIDEPOOL_BINDINGS_C_OWNERS_H_
#define TIDEPOOL_BINDINGS_C_OWNERS_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/c_api.h"

namespace tidepool::c_api {

// Owners have the numbers from 1 on. Allocations without an owner are not in the table: they cost
// one comparison at their free. Thread-safe. Everything is O(1) but for Add, O(owners).
class Owners {
 public:
  struct Owned {
    std::size_t owner = 0;
    std::size_t bytes = 0;
  };

  // Returns the number of a name, which may be new.
  absl::StatusOr<std::size_t> Add(std::string_view name);
  absl::Status Check(std::size_t owner) const;

  // Counts an allocation of an owner that exists.
  void Allocated(const void* address, Owned owned);
  bool HasLive() const { return live_.load(std::memory_order_relaxed) != 0; }
  // Takes an allocation out of the table and the figures; nothing without an owner. Must come
  // before the pool's free: afterwards the address may belong to another.
  std::optional<Owned> Take(const void* address);
  // Undoes Take, when the pool did not free the memory.
  void PutBack(const void* address, Owned owned);

  // Fills the first `struct_size` bytes.
  absl::Status FillStatistics(std::size_t owner, tidepool_owner_statistics& statistics) const;
  void ResetPeaks();

 private:
  struct Owner {
    std::string name;
    tidepool_owner_statistics figures = {};
  };

  absl::Status CheckLocked(std::size_t owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const void* address, Owned owned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<std::size_t> live_ = 0;  // allocations in the table
  mutable locks::Mutex mutex_;
  std::deque<Owner> owners_ ABSL_GUARDED_BY(mutex_);  // their names never move
  absl::flat_hash_map<const void*, Owned> allocations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_OWNERS_H_
