// SPDX-License-Identifier: Apache-2.0
// Options that divide a batch: sub-batches in rounds, and devices.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_DIVISION_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_DIVISION_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/graph_family.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

// Adds --sub-batch, --devices, --host-cores, --reduction and the links of peers.
void AddDivisionOptions(CLI::App& app, OffloadCommandOptions& options);

// Refuses options of several devices, and of updates on the host, without them.
absl::Status CheckDivisionOptions(const CLI::App& app, const OffloadCommandOptions& options);

// Whether options divide the batch, which needs a family.
bool DividesBatch(const OffloadCommandOptions& options);

// Makes the divided iteration of a family at a batch. Returns an error for wrong options only.
absl::StatusOr<ScheduledGraph> MakeDividedGraph(const OffloadCommandOptions& options,
                                                const GraphFamily& family, std::int64_t batch);

// Returns the graph at the batch of a round; the first one for batch 0.
const TaskGraph& GraphOfRound(const std::vector<TaskGraph>& graphs, const ScheduleRound& round);

// Returns the seconds of the fastest algorithms of all tasks of a schedule, on one device. Updates
// count once, and not at all where the host runs them for several devices.
double LeastSecondsOf(const std::vector<TaskGraph>& graphs, const Schedule& schedule);

// Returns how devices add up gradients by the steps of a schedule.
GradientReduction ReductionOf(const Schedule& schedule);

// Returns the samples of a schedule's iteration on all devices; 0: no round names its batch.
std::int64_t SamplesOf(const Schedule& schedule);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_DIVISION_OPTIONS_H_
