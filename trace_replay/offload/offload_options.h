// What `simulate` and `run` share: a graph, a machine, a policy, and the schedule that follows.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/offload_policy.h"
#include "tidepool/schedule/schedule.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

struct OffloadCommandOptions {
  std::string graph;
  std::string policy = "vdnn++";
  std::string set = "conv";
  std::string algorithms = "p";
  std::string order = "prefetch-first";
  std::optional<double> in_bytes_per_second;
  std::optional<double> density;
  std::string profile;   // a file
  std::string timeline;  // the same
  bool json = false;
  OffloadPolicyOptions offload;
};

void AddOffloadOptions(CLI::App& app, OffloadCommandOptions& options);

struct ScheduledGraph {
  TaskGraph graph;
  OffloadPolicyOptions offload;
  // ResourceExhausted: nothing fits.
  absl::StatusOr<Schedule> schedule;
};
// Reads the graph and makes the schedule. Errors are those of the input.
absl::StatusOr<ScheduledGraph> MakeScheduledGraph(const OffloadCommandOptions& options);

// Says that there is not memory enough, and why.
Answer PrintDoesNotFit(const OffloadCommandOptions& options, const TaskGraph& graph,
                       const absl::Status& why);
// Prints what an iteration takes, with `more` in JSON, and writes the timeline where one is asked
// for.
absl::StatusOr<Answer> PrintTimeline(const OffloadCommandOptions& options, const TaskGraph& graph,
                                     const Schedule& schedule, const Timeline& timeline,
                                     const nlohmann::ordered_json& more);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_
