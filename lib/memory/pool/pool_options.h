// SPDX-License-Identifier: Apache-2.0
// The options of a pool, checked and completed.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_OPTIONS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Returns options in which nothing is automatic and sizes are multiples of the alignment.
// InvalidArgument for values out of range.
absl::StatusOr<PoolOptions> ResolveOptions(const Device& device, const PoolOptions& options);

inline constexpr char kPlanned[] = "planned";

// Returns how many bytes of addresses a pool has if its memory is mapped and does not move. Plans
// may lie beyond memory that stays, so they have as many again.
std::int64_t MappedAddressBytes(const PoolOptions& options);

// The policy of a pool, and the same policy if it follows plans.
struct PoolPolicy {
  std::unique_ptr<PlacementPolicy> policy;
  PlannedPlacement* planned = nullptr;
};
// NotFound for an unknown policy. Raises the initial bytes to the height of a plan.
absl::StatusOr<PoolPolicy> MakePolicy(PoolOptions& options);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_OPTIONS_H_
