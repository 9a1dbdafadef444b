// Plans of whole traces for the placement `planned`: made, or read from a file.
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
  std::optional<bool> optimal = std::nullopt;    // nothing when it is not known
  bool interrupted = false;                      // so that it is the best until then
  std::optional<double> seconds = std::nullopt;  // that it took to make; nothing for a file
};

// `plan` is one for this trace.
PlannedTrace ToPlanned(const MeasuredTrace& measured, const Plan& plan);

// From a file as `plan -o` writes it: errors are ReadPlan's and OffsetsFor's.
absl::StatusOr<PlannedTrace> ReadPlanned(const std::string& path, const MeasuredTrace& measured);

// The pool of a plan, verified by a replay. It is the smallest, and so exact, where a plan is
// optimal and says the same of every placement: one stream never waits for another.
absl::StatusOr<MinimumPoolResult> PlannedSize(const MeasuredTrace& measured,
                                              const PlannedTrace& planned);

// Returns whether a table of all policies may omit a policy that needs a plan, unless the user
// asked for it by name: not every trace can be planned. `status` is the reason why it has no size.
bool CanBeLeftOut(const absl::Status& status);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PLANNED_H_
