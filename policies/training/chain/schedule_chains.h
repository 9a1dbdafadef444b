// SPDX-License-Identifier: Apache-2.0
// The schedule of a graph of several chains, one after the other.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SCHEDULE_CHAINS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SCHEDULE_CHAINS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/schedule.h"

namespace tidepool::chain_policies {

// A chain with tasks of the graph, and its schedule.
struct ScheduledChain {
  GraphChain made;
  ChainSchedule schedule;
};

// Returns the schedule of a graph, as ScheduleChain does. Each task is in one of the chains, which
// run one after the other and have one link. Errors are ScheduleChain's.
absl::StatusOr<Schedule> ScheduleChains(const TaskGraph& graph,
                                        absl::Span<const ScheduledChain> chains,
                                        std::int64_t granule);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SCHEDULE_CHAINS_H_
