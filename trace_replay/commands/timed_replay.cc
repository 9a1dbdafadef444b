// SPDX-License-Identifier: Apache-2.0
// Replays of the command `replay`.
#include "trace_replay/commands/timed_replay.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "trace_replay/caller.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/replay/device_replay.h"

namespace tidepool::tool {
namespace {

absl::StatusOr<TimedReplay> ReplayByPlacement(const ReplayCommandOptions& options,
                                              const MeasuredTrace& measured,
                                              const PlannedTrace* planned) {
  std::unique_ptr<PlacementPolicy> policy;
  const PlannedPlacement* counting = nullptr;
  if (planned == nullptr) {
    policy = MakePlacementPolicy(options.policy).value();
  } else {
    std::unique_ptr<PlannedPlacement> made = PlannedPlacement::Create({planned->placement});
    counting = made.get();
    policy = std::move(made);
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ReplayResult> result = Replay(*measured.trace, *policy,
                                               {.pool_bytes = options.pool_bytes,
                                                .alignment = measured.alignment,
                                                .keep_offsets = options.offsets,
                                                .stop = CallerStop()});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result.ok()) return AboutFile(options.trace, result.status());
  TimedReplay replay{*std::move(result), elapsed.count(), std::nullopt, std::nullopt};
  if (counting != nullptr) replay.counts = counting->counts();
  return replay;
}

absl::StatusOr<TimedReplay> ReplayFromPool(const ReplayCommandOptions& options,
                                           const MeasuredTrace& measured,
                                           const PlannedTrace* planned) {
  const std::int64_t pool_bytes = options.pool_bytes & -measured.alignment;
  const std::int64_t wanted = options.initial_bytes < 0 ? pool_bytes : options.initial_bytes;
  absl::StatusOr<LiveReplay> live =
      ReplayOnDevice(measured, {.device = options.device,
                                .trace = options.trace,
                                .policy = options.policy,
                                .plan = planned == nullptr ? nullptr : planned->placement,
                                .pool_bytes = options.pool_bytes,
                                .initial_bytes = std::min(wanted, pool_bytes),
                                .memory = *MemoryOf(options.memory),
                                .growth = options.growth,
                                .remap = options.remap,
                                .verify = options.verify,
                                .recording = options.recording});
  if (!live.ok()) return live.status();
  TimedReplay replay{std::move(live->placement), live->seconds, std::nullopt, std::nullopt};
  if (planned != nullptr) replay.counts = {live->pool.planned, live->pool.deviations};
  replay.live = *std::move(live);
  return replay;
}

// Returns a plan that fits into the pool because streams wait; no value without such a plan.
std::optional<PlannedTrace> PlannedWithWaits(const ReplayCommandOptions& options,
                                             const MeasuredTrace& measured) {
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kAllowed, options.pool_bytes, options.time_limit_seconds);
  if (!plan.ok() || plan->height > options.pool_bytes) return std::nullopt;
  PlannedTrace planned = ToPlanned(measured, *plan);
  planned.streams_wait = true;
  return planned;
}

}  // namespace

absl::StatusOr<PlannedTrace> PlannedOf(const ReplayCommandOptions& options,
                                       const MeasuredTrace& measured) {
  if (!options.plan.empty()) return ReadPlanned(options.plan, measured);
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kNone, std::nullopt, options.time_limit_seconds);
  if (!plan.ok()) return AboutFile(options.trace, plan.status());
  PlannedTrace planned = ToPlanned(measured, *plan);
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kNone);
  if (!problem.ok() || !HasOrderedStreams(*problem)) return planned;
  planned.streams_wait = false;
  if (options.pool_bytes < 0 || plan->height <= options.pool_bytes) return planned;
  return PlannedWithWaits(options, measured).value_or(planned);
}

absl::StatusOr<TimedReplay> ReplayTimed(const ReplayCommandOptions& options,
                                        const MeasuredTrace& measured,
                                        const PlannedTrace* planned) {
  return options.device == "none" ? ReplayByPlacement(options, measured, planned)
                                  : ReplayFromPool(options, measured, planned);
}

}  // namespace tidepool::tool
