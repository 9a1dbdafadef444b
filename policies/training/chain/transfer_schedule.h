// SPDX-License-Identifier: Apache-2.0
// Schedules of policies that only transfer activations.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_TRANSFER_SCHEDULE_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_TRANSFER_SCHEDULE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::chain_policies {

// Returns the operations and the transfers of placed transfers as one list, in ascending order of
// starts. Starts that are equal, but for their rounding, are in an order that keeps the memory and
// brings each activation before its use. O(L + n).
std::vector<ChainStep> StepsOf(const ChainTransfers& transfers, const ChainTimes& times);

// Returns the steps and the makespan of placed transfers, with ChainOperationBound as the lower
// bound, and no name of a policy. O(L + n).
ChainSchedule ScheduleOf(const Chain& chain, const ChainTransfers& transfers,
                         const ChainTimes& times);

// Returns the schedule of a set in the paper's order: offloads by increasing index, prefetches by
// decreasing index. Errors are PlaceTransfers's. O((L + n) log L).
absl::StatusOr<ChainSchedule> ScheduleSet(const Chain& chain, absl::Span<const std::size_t> set);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_TRANSFER_SCHEDULE_H_
