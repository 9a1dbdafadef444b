// SPDX-License-Identifier: Apache-2.0
// Carries the decisions of a pool's schedule over to paged memory.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_PAGED_FROM_POOL_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_PAGED_FROM_POOL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// Returns the steps of a valid schedule of a pool in which no task uses sent data before its drop,
// with drops as late as the memory allows, and without waits for all streams. Data that was sent is
// dropped when a later step finds no room, in the order in which it was sent. Data that is fetched
// before that stays. ResourceExhausted where a step has no room in the memory. O(steps).
absl::StatusOr<Schedule> PagedFromPool(const TaskGraph& graph, const Schedule& schedule,
                                       std::int64_t memory_bytes, std::int64_t granule);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_PAGED_FROM_POOL_H_
