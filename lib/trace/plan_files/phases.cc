// SPDX-License-Identifier: Apache-2.0
// The work of a phase is free when the next begins, so one plan for the work of all phases puts
// them into the same place. Memory that a phase hands on is free after the next one, so two areas
// do.
#include "tidepool/trace/phases.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

// A time of a phase, or the requests between two of them.
struct Time {
  std::size_t phase = 0;
  std::size_t ordinal = 0;  // phases that have begun, so requests after a phase have its number
};

// How long an allocation lives.
enum class Stay : std::uint8_t { kWork, kHanded, kKept, kLeftOut };

class Phases {
 public:
  explicit Phases(const Trace& trace) : trace_(trace), has_end_(trace.mark_names.size()) {
    for (const TraceEvent& event : trace.events) {
      if (event.kind == TraceEvent::Kind::kMarkEnd) has_end_[event.index] = true;
    }
    begun_.resize(trace.allocations.size());
    ended_.resize(trace.allocations.size());
    Walk();
  }

  const std::vector<PhaseNeed>& needs() const { return needs_; }
  const Time& TimeOf(std::size_t allocation) const { return times_[begun_[allocation]]; }
  // The number of the time in which an allocation begins.
  std::size_t NumberOf(std::size_t allocation) const { return begun_[allocation]; }
  std::size_t ordinals() const { return ordinal_ + 1; }
  std::size_t times() const { return times_.size(); }

  Stay StayOf(std::size_t allocation) const {
    if (!ended_[allocation].has_value()) return Stay::kKept;
    const std::size_t end = *ended_[allocation];
    if (end == begun_[allocation]) return Stay::kWork;
    const bool is_soon = times_[end].ordinal <= times_[begun_[allocation]].ordinal + 1;
    return is_soon ? Stay::kHanded : Stay::kKept;
  }

 private:
  void Walk() {
    for (const TraceEvent& event : trace_.events) {
      switch (event.kind) {
        case TraceEvent::Kind::kMark:
          if (open_ == 0) Begin(trace_.mark_names[event.index]);
          open_ += has_end_[event.index] ? 1 : 0;
          break;
        case TraceEvent::Kind::kMarkEnd:
          if (open_ > 0 && --open_ == 0) now_ = std::nullopt;
          break;
        case TraceEvent::Kind::kAllocate:
          begun_[event.index] = Now();
          break;
        case TraceEvent::Kind::kFree:
          ended_[event.index] = Now();
          break;
        default:
          break;
      }
    }
  }

  void Begin(std::string_view name) {
    ++ordinal_;
    Add(name);
  }
  // Outside of phases, the first request or free begins a time.
  std::size_t Now() {
    if (!now_.has_value()) Add("");
    return *now_;
  }
  void Add(std::string_view name) {
    const auto [it, is_new] = numbers_.try_emplace(std::string(name), needs_.size());
    if (is_new) needs_.push_back({.name = it->first});
    ++needs_[it->second].times;
    now_ = times_.size();
    times_.push_back({it->second, ordinal_});
  }

  const Trace& trace_;
  std::vector<bool> has_end_;  // by mark: it begins spans
  std::map<std::string, std::size_t> numbers_;
  std::vector<PhaseNeed> needs_;
  std::vector<Time> times_;
  std::vector<std::size_t> begun_;                 // by allocation: a time
  std::vector<std::optional<std::size_t>> ended_;  // likewise; no value: never
  std::size_t ordinal_ = 0;
  std::size_t open_ = 0;  // spans
  std::optional<std::size_t> now_;
};

absl::Status CheckNames(const std::vector<PhaseNeed>& phases,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(phases, name, &PhaseNeed::name) != phases.end()) continue;
    std::string known;
    for (const PhaseNeed& phase : phases) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", absl::CHexEscape(phase.name));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the trace has no phase \"", absl::CHexEscape(name), "\", expected one of ", known));
  }
  return absl::OkStatus();
}

// Counts the bytes of the phases. Returns how long each allocation lives.
std::vector<Stay> CountStays(const Trace& trace, const Phases& phases, const PlanProblem& problem,
                             const std::vector<std::string>& without, PhaseNeeds& needs) {
  std::vector<Stay> stays(trace.allocations.size());
  std::vector<std::int64_t> kept(needs.phases.size());
  std::vector<std::int64_t> work(phases.times());
  std::vector<std::int64_t> handed(phases.times());
  std::vector<std::int64_t> handed_by_ordinal(phases.ordinals());
  const auto raise = [](std::int64_t& most, std::int64_t bytes) { most = std::max(most, bytes); };
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    const std::size_t i = event.index;
    const std::size_t time = phases.NumberOf(i);
    PhaseNeed& phase = needs.phases[phases.TimeOf(i).phase];
    const std::int64_t bytes = problem.buffers[i].bytes;
    if (event.kind == TraceEvent::Kind::kFree) {
      if (stays[i] == Stay::kKept) kept[phases.TimeOf(i).phase] -= bytes;
      if (stays[i] == Stay::kWork) work[time] -= bytes;
      continue;
    }
    const bool is_counted = std::ranges::find(without, phase.name) == without.end();
    stays[i] = is_counted ? phases.StayOf(i) : Stay::kLeftOut;
    if (stays[i] == Stay::kKept) raise(phase.kept, kept[phases.TimeOf(i).phase] += bytes);
    if (stays[i] == Stay::kWork) raise(phase.work, work[time] += bytes);
    if (stays[i] != Stay::kHanded) continue;
    raise(phase.handed, handed[time] += bytes);
    raise(needs.handed, handed_by_ordinal[phases.TimeOf(i).ordinal] += bytes);
  }
  return stays;
}

// Returns the height of a plan for the buffers of one kind.
absl::StatusOr<std::int64_t> HeightOf(const PlanProblem& problem, const std::vector<Stay>& stays,
                                      Stay wanted, const PhaseOptions& options) {
  PlanProblem part = {.buffers = {}, .waits = problem.waits};
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (stays[i] == wanted) part.buffers.push_back(problem.buffers[i]);
  }
  const absl::StatusOr<Plan> plan =
      MakePlan(part, {.time_limit_seconds = options.time_limit_seconds / 2, .stop = options.stop});
  if (!plan.ok()) return plan.status();
  return plan->height;
}

}  // namespace

absl::StatusOr<PhaseNeeds> FindPhaseNeeds(const Trace& trace, const PhaseOptions& options) {
  if (trace.mark_names.size() == 0) {
    return absl::InvalidArgumentError(
        "the trace has no marks, expected one where each phase begins");
  }
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, options.alignment);
  if (!problem.ok()) return problem.status();
  const Phases phases(trace);
  if (absl::Status status = CheckNames(phases.needs(), options.without); !status.ok()) {
    return status;
  }
  PhaseNeeds needs = {.phases = phases.needs()};
  const std::vector<Stay> stays = CountStays(trace, phases, *problem, options.without, needs);
  const absl::StatusOr<std::int64_t> kept = HeightOf(*problem, stays, Stay::kKept, options);
  if (!kept.ok()) return kept.status();
  const absl::StatusOr<std::int64_t> work = HeightOf(*problem, stays, Stay::kWork, options);
  if (!work.ok()) return work.status();
  needs.kept = *kept;
  needs.work = *work;
  needs.needed = needs.kept + 2 * needs.handed + needs.work;
  std::erase_if(needs.phases, [&](const PhaseNeed& phase) {
    return std::ranges::find(options.without, phase.name) != options.without.end();
  });
  return needs;
}

}  // namespace tidepool
