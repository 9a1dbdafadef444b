// SPDX-License-Identifier: Apache-2.0
// `--order best` and `--placement best`: all orders and placements are tried for the smallest pool.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_POOLS_TRIED_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_POOLS_TRIED_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/smallest_pool.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

bool TriesPools(const OffloadCommandOptions& options);
// Returns the orders of allocations to try: all, or the one of --order. Errors are those of names.
absl::StatusOr<std::vector<AllocationOrder>> OrdersOf(const OffloadCommandOptions& options);
// Returns the schedule with the smallest pool, with its order and placement in `choice`.
absl::StatusOr<ScheduledGraph> TryPools(const OffloadCommandOptions& options, TaskGraph graph,
                                        PolicyChoice choice);

nlohmann::ordered_json TrialsJson(const std::vector<PoolTrial>& trials);
std::string TrialsText(const ScheduledGraph& scheduled);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_POOLS_TRIED_H_
