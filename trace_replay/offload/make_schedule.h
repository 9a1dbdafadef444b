// SPDX-License-Identifier: Apache-2.0
// The schedule that options ask for.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_MAKE_SCHEDULE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_MAKE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"
#include "tidepool/training/smallest_pool.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

// The schedule of a command's graph: made by a policy, or read from a file.
struct ScheduledGraph {
  PolicyChoice choice;
  MadeSchedule made;                 // without steps where no schedule fits
  absl::Status fits = {};            // ResourceExhausted if no schedule fits the memory
  bool has_machine_of_file = false;  // the schedule's file describes the machine
  // The orders and placements that were tried for the smallest pool, and the index of the one that
  // was taken. Empty unless options ask for it.
  std::vector<PoolTrial> trials = {};
  std::size_t best_trial = 0;

  const TaskGraph& graph() const { return made.graphs.front(); }
  const Schedule& schedule() const { return made.schedule; }
};
// Returns the request for an iteration on one device. An unknown policy has no options.
ScheduleRequest RequestOf(const std::string& policy, const PolicyChoice& choice);
// Returns the answer of a search for the schedule of `graph`, the whole iteration on one device.
// Returns an error of `made`, unless the memory does not suffice.
absl::StatusOr<ScheduledGraph> Answered(absl::StatusOr<MadeSchedule> made, TaskGraph graph,
                                        PolicyChoice choice);
// Makes the schedule, or reads it from its file. A family needs a batch, unless the file names the
// batches of all rounds; a graph takes none: 0. Returns an error for wrong options only.
absl::StatusOr<ScheduledGraph> MakeScheduledGraph(const OffloadCommandOptions& options,
                                                  GraphOrFamily graphs, std::int64_t batch);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_MAKE_SCHEDULE_H_
