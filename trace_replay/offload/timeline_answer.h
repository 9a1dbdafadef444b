// SPDX-License-Identifier: Apache-2.0
// The answers of `schedule`, `emit`, `simulate` and `run`: times, stalls and bytes of an iteration.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_TIMELINE_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_TIMELINE_ANSWER_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/schedule_file.h"
#include "tidepool/training/timeline.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

// Return the object of `--json` for an iteration that does not fit, and for one that fits, with
// the fields `more`.
nlohmann::ordered_json DoesNotFitJson(const OffloadCommandOptions& options,
                                      const ScheduledGraph& scheduled, const absl::Status& why);
nlohmann::ordered_json TimelineAnswerJson(const OffloadCommandOptions& options,
                                          const ScheduledGraph& scheduled, const Timeline& timeline,
                                          const nlohmann::ordered_json& more);

// Returns a note on a search that ended before its work was done; "" for any other.
std::string EarlyEndText(EndedBy ended_by);

// Returns the samples over which the schedule of a valid graph normalises.
nlohmann::ordered_json NormalizationJson(const TaskGraph& graph, const Schedule& schedule);
BatchNormalization NormalizationOf(const TaskGraph& graph, const Schedule& schedule);

// Prints that the memory does not suffice, and the reason.
Answer PrintDoesNotFit(const OffloadCommandOptions& options, const ScheduledGraph& scheduled,
                       const absl::Status& why);
// Prints the times and bytes of an iteration of a schedule that fits, with the fields `more` in
// JSON. Writes the timeline to the file of `--timeline`, if given.
absl::StatusOr<Answer> PrintTimeline(const OffloadCommandOptions& options,
                                     const ScheduledGraph& scheduled, const Timeline& timeline,
                                     const nlohmann::ordered_json& more);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_TIMELINE_ANSWER_H_
