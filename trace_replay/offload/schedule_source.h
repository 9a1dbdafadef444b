// SPDX-License-Identifier: Apache-2.0
// Schedules from files, with the machines that they name.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SCHEDULE_SOURCE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SCHEDULE_SOURCE_H_

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

// Adds --schedule.
void AddScheduleFileOption(CLI::App& app, OffloadCommandOptions& options);

// Refuses --schedule beside an option that decides on a schedule, and a missing --memory without
// --schedule. `app` has parsed its arguments. With `fixes_pages` it may be beside --memory-kind
// fixed, which gives pages addresses.
absl::Status CheckScheduleFile(const CLI::App& app, const OffloadCommandOptions& options,
                               bool fixes_pages = false);

// Refuses a file for the schedule that is the graph or belongs to other output.
absl::Status CheckScheduleOutput(const OffloadCommandOptions& options, const std::string& output);

// Reads the file of --schedule and checks it against the graph, or against a family at the batches
// of its rounds. Options of the machine that were not given are those of the file's machine.
absl::StatusOr<ScheduledGraph> ReadScheduledGraph(const OffloadCommandOptions& options,
                                                  GraphOrFamily graphs, std::int64_t batch);

// Gives a schedule with pages fixed addresses on its machine. Leaves other schedules alone.
// ResourceExhausted when no plan within the memory is found.
absl::Status FixPages(ScheduledGraph& scheduled);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SCHEDULE_SOURCE_H_
