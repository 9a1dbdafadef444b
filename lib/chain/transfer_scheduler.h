// SPDX-License-Identifier: Apache-2.0
// Turns placed transfers of a chain into the steps of a schedule.
#ifndef TIDEPOOL_LIB_CHAIN_TRANSFER_SCHEDULER_H_
#define TIDEPOOL_LIB_CHAIN_TRANSFER_SCHEDULER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tidepool/schedule/chain.h"

namespace tidepool::chain {

// Times are sums in different orders. Those that differ by this part of the makespan are equal.
inline constexpr double kRounding = 1e-12;

// Returns the schedule of transfers with their times. ResourceExhausted where data in granules does
// not fit.
absl::StatusOr<Schedule> ScheduleWithTimes(const TaskGraph& graph, const GraphChain& made,
                                           const ChainTransfers& transfers, const ChainTimes& times,
                                           std::int64_t granule);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_CHAIN_TRANSFER_SCHEDULER_H_
