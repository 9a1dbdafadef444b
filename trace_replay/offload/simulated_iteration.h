// SPDX-License-Identifier: Apache-2.0
// One iteration, scheduled and simulated: one answer of `schedule`, `emit` or `simulate`, or one
// point of a sweep.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SIMULATED_ITERATION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SIMULATED_ITERATION_H_

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "tidepool/training/timeline.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

struct SimulatedIteration {
  ScheduledGraph scheduled;
  // ResourceExhausted if the memory does not suffice.
  absl::StatusOr<Timeline> timeline;
};
// Simulates the schedule, if one fits. Returns an error unless the memory does not suffice.
absl::StatusOr<SimulatedIteration> SimulateScheduled(ScheduledGraph scheduled);
// Makes the schedule of a graph, or of a family at a batch, and simulates it. Returns an error for
// wrong options only.
absl::StatusOr<SimulatedIteration> ScheduleAndSimulate(const OffloadCommandOptions& options,
                                                       const GraphOrFamily& graphs,
                                                       std::int64_t batch);

// The smallest pools that serve the requests of an iteration in their order.
struct SmallestPools {
  std::int64_t peak_live_bytes = 0;
  std::int64_t best_fit_bytes = 0;  // by the restart search
  std::int64_t planned_bytes = 0;
};
// Sizes the pools of an iteration that fits. Takes up to a second for the plan.
absl::StatusOr<SmallestPools> SizePools(const SimulatedIteration& iteration);
nlohmann::ordered_json SmallestPoolsJson(const SmallestPools& pools);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SIMULATED_ITERATION_H_
