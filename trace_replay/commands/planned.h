// SPDX-License-Identifier: Apache-2.0
// Plans of whole traces for placement policies that need a plan: made, or read from a file.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_PLANNED_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_PLANNED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

// Returns whether the placement policy `name` needs a plan. An unknown policy does not.
bool NeedsPlan(std::string_view name);

// Returns the names of the policies that need a plan, for help texts and errors.
std::string NamesThatNeedPlans();

struct PlannedTrace {
  std::shared_ptr<const PlacementPlan> placement = nullptr;  // the trace is one iteration
  std::int64_t lower_bound_bytes = 0;
  std::optional<bool> optimal = std::nullopt;    // empty: unknown
  bool interrupted = false;                      // the plan is the best before Ctrl-C
  std::optional<double> seconds = std::nullopt;  // of the search; empty for a plan from a file
  // Whether streams wait for memory of each other in this plan; empty where the trace has one
  // stream or does not tell their order.
  std::optional<bool> streams_wait = std::nullopt;
};

// `plan` must be a plan of this trace.
PlannedTrace ToPlanned(const MeasuredTrace& measured, const Plan& plan);

// Reads a plan from a file of `plan -o`. Errors are those of ReadPlan and OffsetsFor.
absl::StatusOr<PlannedTrace> ReadPlanned(const std::string& path, const MeasuredTrace& measured);

// Returns the pool of a plan in which streams may wait, verified by a replay. The pool is exact,
// the smallest of all placements, if the plan is optimal.
absl::StatusOr<MinimumPoolResult> PlannedSize(const MeasuredTrace& measured,
                                              const PlannedTrace& planned);

// Returns whether a table of all policies may omit a policy that needs a plan, unless the user
// asked for it by name: not every trace can be planned. `status` is the reason why it has no size.
bool CanBeLeftOut(const absl::Status& status);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PLANNED_H_
