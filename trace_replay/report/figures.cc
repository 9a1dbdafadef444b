// SPDX-License-Identifier: Apache-2.0
// Computes layouts on several threads.
#include "trace_replay/report/figures.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/commands/stream_waits.h"
#include "trace_replay/side_by_side.h"

namespace tidepool::tool {
namespace {

MinimumPoolOptions Effort(const MeasuredTrace& measured, const std::stop_token& stop) {
  constexpr std::size_t kManyEvents = 200'000;
  MinimumPoolOptions options = {.alignment = measured.alignment, .stop = stop};
  if (measured.trace->events.size() <= kManyEvents) return options;
  options.most_steps = 0;
  options.most_restart_steps = 1'500'000;
  return options;
}

// The plan is the best within this time, because a report is not waited for long.
constexpr double kPlanSeconds = 1;

absl::StatusOr<Layout> PlannedLayout(const MeasuredTrace& measured, const std::string& name,
                                     const std::stop_token& stop) {
  const PlanOptions options = {.time_limit_seconds = kPlanSeconds, .stop = stop};
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kAllowed);
  if (!problem.ok()) return problem.status();
  absl::StatusOr<Plan> plan = MakePlan(*problem, options);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<MinimumPoolResult> result =
      PlannedSize(measured, ToPlanned(measured, *plan));
  if (!result.ok()) return result.status();
  Layout layout;
  layout.size = {name, *result, {}};
  layout.pool_bytes = plan->height;
  layout.offsets = std::move(plan->offsets);
  const absl::StatusOr<PlanProblem> streams = ProblemOf(measured, StreamWaits::kNone);
  if (!streams.ok() || !HasOrderedStreams(*streams)) return layout;
  const absl::StatusOr<Plan> without = MakePlan(*streams, options);
  if (!without.ok()) return without.status();
  layout.size.bytes_without_waits = without->height;
  return layout;
}

absl::StatusOr<Layout> ComputeLayout(const MeasuredTrace& measured, const std::string& name,
                                     bool keep_offsets, const std::stop_token& stop) {
  if (NeedsPlan(name)) return PlannedLayout(measured, name, stop);
  const absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(name);
  if (!policy.ok()) return policy.status();
  const MinimumPoolOptions effort = Effort(measured, stop);
  absl::StatusOr<MinimumPoolResult> result = MinimumPool(*measured.trace, **policy, effort);
  if (!result.ok()) return result.status();
  Layout layout;
  layout.size = {name, *result, effort};
  layout.pool_bytes = result->exact_pool_bytes.value_or(result->pool_bytes);
  if (!keep_offsets) return layout;
  absl::StatusOr<ReplayResult> replay = Replay(*measured.trace, **policy,
                                               {.pool_bytes = layout.pool_bytes,
                                                .alignment = measured.alignment,
                                                .keep_offsets = true,
                                                .stop = stop});
  if (!replay.ok()) return replay.status();
  layout.offsets = std::move(replay->offsets);
  return layout;
}

// Sizes PyTorch's allocator with the settings of the trace.
absl::StatusOr<std::vector<PolicySize>> ComputeModels(const MeasuredTrace& measured,
                                                      const std::vector<std::string>& names,
                                                      const std::stop_token& stop) {
  std::vector<PolicySize> sizes;
  const MinimumPoolOptions effort = Effort(measured, stop);
  for (const std::string& name : names) {
    const auto settings = PyTorchSettings(name, *measured.trace, "");
    if (!settings.ok()) return settings.status();
    const auto result = MinimumCachingMemory(*measured.trace, *settings, effort);
    if (!result.ok()) return result.status();
    sizes.push_back({name, *result, effort});
  }
  return sizes;
}

std::optional<std::int64_t> ReservedPeak(const Trace& trace) {
  if (trace.reservations.empty()) return std::nullopt;
  std::int64_t reserved = 0;
  std::int64_t peak = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEvent::Kind::kReserve) continue;
    // In a damaged trace the sum may overflow: then it is unknown.
    if (__builtin_add_overflow(reserved, trace.reservations[event.index].bytes, &reserved)) {
      return std::nullopt;
    }
    peak = std::max(peak, reserved);
  }
  return peak;
}

}  // namespace

bool IsUpperBound(const Layout& layout, const TraceDemand& demand) {
  return !layout.size.result.exact_pool_bytes.has_value() && layout.pool_bytes > demand.needs_bytes;
}

const Layout& Best(const ReportFigures& figures) {
  return *std::min_element(
      figures.layouts.begin(), figures.layouts.end(),
      [](const Layout& a, const Layout& b) { return a.pool_bytes < b.pool_bytes; });
}

// Removes the models of PyTorch's allocator from `names`, and returns those to size.
std::vector<std::string> TakeModels(const FiguresRequest& request, const Trace& trace,
                                    std::vector<std::string>& names) {
  if (request.policies.empty()) {
    return IsFromPyTorch(trace) ? PyTorchPolicyNames() : std::vector<std::string>();
  }
  std::vector<std::string> models;
  absl::c_copy_if(names, std::back_inserter(models), IsPyTorchPolicy);
  std::erase_if(names, IsPyTorchPolicy);
  return models;
}

absl::StatusOr<ReportFigures> ComputeFigures(MeasuredTrace measured,
                                             const FiguresRequest& request) {
  std::optional<MeasuredTrace> with_refused;
  if (!measured.trace->failures.empty()) {
    absl::StatusOr<MeasuredTrace> made = ToRequests(measured);
    if (!made.ok()) return made.status();
    with_refused = *std::move(made);
  }
  const MeasuredTrace& requests = with_refused.has_value() ? *with_refused : measured;
  absl::StatusOr<std::vector<std::string>> names = PolicyNames(request.policies);
  if (!names.ok()) return names.status();
  absl::StatusOr<std::vector<PolicySize>> models =
      ComputeModels(requests, TakeModels(request, *requests.trace, *names), request.stop);
  if (!models.ok()) return models.status();
  if (names->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a report draws pools, which PyTorch's allocator does not have, expected one of ",
        absl::StrJoin(PlacementPolicyNames(), ", "), " as --policy too"));
  }
  std::vector<absl::StatusOr<Layout>> computed(names->size(), Layout{});
  SideBySide(names->size(), [&](std::size_t i) {
    computed[i] =
        ComputeLayout(requests, (*names)[i], i < request.layouts_with_offsets, request.stop);
  });
  if (request.stop.stop_requested()) return absl::CancelledError("interrupted");
  ReportFigures figures;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (computed[i].ok()) {
      figures.layouts.push_back(*std::move(computed[i]));
      std::vector<std::int64_t>& offsets = figures.layouts.back().offsets;
      offsets = OfRecorded(requests, std::move(offsets));
    } else if (!request.policies.empty() || !NeedsPlan((*names)[i]) ||
               !CanBeLeftOut(computed[i].status())) {
      return computed[i].status();
    }
  }
  figures.models = *std::move(models);
  figures.budget_bytes = request.budget_bytes;
  if (!measured.contradicts) figures.reserved_peak = ReservedPeak(*measured.trace);
  figures.measured = std::move(measured);
  return figures;
}

nlohmann::ordered_json FiguresJson(const ReportFigures& figures) {
  nlohmann::ordered_json json = {{"headline", absl::StrJoin(Headline(figures), " ")},
                                 {"trace", TraceJson(figures.measured)},
                                 {"history", figures.measured.trace->has_history},
                                 {"policies", nlohmann::ordered_json::array()}};
  const TraceLoad& load = figures.measured.load;
  for (const Layout& layout : figures.layouts) {
    nlohmann::ordered_json policy = PolicyJson(layout.size, load);
    policy["at_most"] = layout.size.result.gave_up_restarts;
    json["policies"].push_back(std::move(policy));
  }
  if (!figures.models.empty()) json["allocators"] = nlohmann::ordered_json::array();
  for (const PolicySize& model : figures.models) {
    json["allocators"].push_back(PolicyJson(model, load));
  }
  json["peak_event"] = load.peak_event;
  json["peak_live_count"] = load.peak_live_count;
  json["unfreed_bytes"] = load.unfreed_bytes;
  json["budget_bytes"] = nullptr;
  if (figures.budget_bytes.has_value()) json["budget_bytes"] = *figures.budget_bytes;
  json["reserved_peak_bytes"] = nullptr;
  if (figures.reserved_peak.has_value()) json["reserved_peak_bytes"] = *figures.reserved_peak;
  return json;
}

}  // namespace tidepool::tool
