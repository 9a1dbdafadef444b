// SPDX-License-Identifier: Apache-2.0
// Plan files as plans of pools.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_PLAN_FILE_H_
#define TIDEPOOL_BINDINGS_SUPPORT_PLAN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/planned_placement.h"

namespace tidepool::bindings {

// Reads a plan for a pool with this alignment, a power of two, and this budget. The sizes of the
// file are those of the program; a pool rounds them up. InvalidArgument if buffers overlap then, or
// if the plan is higher than the budget; otherwise ReadPlan's errors. O(n log n).
absl::StatusOr<std::shared_ptr<const PlacementPlan>> ReadPoolPlan(const std::string& path,
                                                                  std::int64_t alignment,
                                                                  std::int64_t budget_bytes);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_PLAN_FILE_H_
