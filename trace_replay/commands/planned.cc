// SPDX-License-Identifier: Apache-2.0
// Conversions from plans to placements, each verified by a replay.
#include "trace_replay/commands/planned.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool::tool {
namespace {

// Converts the offsets of a plan of the trace.
std::shared_ptr<const PlacementPlan> ToPlacement(const MeasuredTrace& measured,
                                                 const std::vector<std::int64_t>& offsets) {
  const PlanProblem problem = ToPlanProblem(*measured.trace, measured.alignment).value();
  return ToPlacementPlan(problem, offsets, offsets.size());
}

}  // namespace

bool NeedsPlan(std::string_view name) {
  const absl::StatusOr<PlacementTraits> traits = PlacementTraitsOf(name);
  return traits.ok() && traits->needs_plan;
}

std::string NamesThatNeedPlans() {
  return absl::StrJoin(PlacementPolicyNames({.needs_plan = true}), " or ");
}

PlannedTrace ToPlanned(const MeasuredTrace& measured, const Plan& plan) {
  return {.placement = ToPlacement(measured, plan.offsets),
          .lower_bound_bytes = plan.lower_bound,
          .optimal = plan.optimal,
          .interrupted = plan.stopped,
          .seconds = plan.seconds};
}

absl::StatusOr<PlannedTrace> ReadPlanned(const std::string& path, const MeasuredTrace& measured) {
  const absl::StatusOr<PlanFile> file = ReadPlan(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::vector<std::int64_t>> offsets =
      OffsetsFor(*file, *measured.trace, measured.alignment);
  if (!offsets.ok()) return offsets.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*measured.trace, measured.alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<std::int64_t> lower_bound = PlanLowerBound(*problem);
  if (!lower_bound.ok()) return lower_bound.status();
  PlannedTrace planned = {.placement = ToPlacement(measured, *offsets),
                          .lower_bound_bytes = *lower_bound};
  if (planned.placement->height_bytes() == *lower_bound) planned.optimal = true;
  return planned;
}

absl::StatusOr<MinimumPoolResult> PlannedSize(const MeasuredTrace& measured,
                                              const PlannedTrace& planned) {
  const std::int64_t pool_bytes = planned.placement->height_bytes();
  const std::unique_ptr<PlannedPlacement> policy = PlannedPlacement::Create({planned.placement});
  const absl::StatusOr<ReplayResult> replay =
      Replay(*measured.trace, *policy,
             {.pool_bytes = pool_bytes, .alignment = measured.alignment, .stop_at_refusal = true});
  if (!replay.ok()) return replay.status();
  if (replay->refused > 0 || policy->counts().deviations > 0) {
    return absl::InternalError(absl::StrCat("a plan of ", pool_bytes, " bytes with ",
                                            policy->counts().deviations,
                                            " deviations in its own trace, expected 0"));
  }
  MinimumPoolResult result;
  result.pool_bytes = pool_bytes;
  result.attempts = 1;
  if (pool_bytes == measured.load.peak_live_bytes || planned.optimal.value_or(false)) {
    result.exact_pool_bytes = pool_bytes;
  } else {
    result.exact_limit = ExactLimit::kUnsearchable;
  }
  // The offsets of a plan are free in every larger pool too.
  result.serves_all_larger = true;
  return result;
}

bool CanBeLeftOut(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

}  // namespace tidepool::tool
