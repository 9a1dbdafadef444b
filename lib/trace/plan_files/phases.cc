// SPDX-License-Identifier: Apache-2.0
// The work of a phase is free when the next begins, so one plan for the work of all phases puts
// them into the same place. Memory that is handed on lies in areas that take turns: one for the
// phase that runs, and one for each phase before it with memory that is not free yet. Kept memory
// shares nothing, because another order may need all of it at once.
#include "tidepool/trace/phases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/trace/plan_files/phase_walk.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

// Memory that is freed later is kept: more areas would take more than it does.
constexpr std::size_t kMostDelay = 8;
constexpr std::size_t kMostNames = 10;  // in an error

// How long an allocation lives.
enum class Stay : std::uint8_t { kWork, kHanded, kKept, kLeftOut };

class Phases {
 public:
  // `without` are the names of phases that are left out.
  Phases(const Trace& trace, const std::vector<std::string>& without) {
    plan_files::PhaseWalk walk(trace);
    begun_.resize(trace.allocations.size());
    ended_.resize(trace.allocations.size());
    for (const TraceEvent& event : trace.events) {
      walk.Step(event);
      if (event.kind == TraceEvent::Kind::kAllocate) begun_[event.index] = *walk.now();
      if (event.kind == TraceEvent::Kind::kFree) ended_[event.index] = walk.now();
    }
    times_ = walk.times();
    for (const std::string& name : walk.names()) needs_.push_back({.name = name});
    for (const std::size_t phase : times_) ++needs_[phase].times;
    FindPhasesBefore(without);
  }

  const std::vector<PhaseNeed>& needs() const { return needs_; }
  std::size_t times() const { return times_.size(); }
  // Return the time in which an allocation begins, and the phase of that time.
  std::size_t TimeOf(std::size_t allocation) const { return begun_[allocation]; }
  std::size_t PhaseOf(std::size_t allocation) const { return times_[begun_[allocation]]; }
  // Returns after how many phases an allocation is freed: 0 in its own one. It is freed.
  std::size_t DelayOf(std::size_t allocation) const {
    return *ended_[allocation] - begun_[allocation];
  }

  Stay StayOf(std::size_t allocation) const {
    if (!ended_[allocation].has_value()) return Stay::kKept;
    if (DelayOf(allocation) == 0) return Stay::kWork;
    return DelayOf(allocation) <= kMostDelay ? Stay::kHanded : Stay::kKept;
  }

  // Whether an allocation is made before a phase is left out for the first time.
  bool IsMadeBefore(std::size_t allocation) const {
    return begun_[allocation] < first_left_out_.value_or(0);
  }
  // Whether a phase runs only after one that is left out.
  bool IsAfter(std::size_t phase) const {
    return first_left_out_.has_value() && first_times_[phase] > *first_left_out_;
  }
  // Whether an allocation is freed before a phase is left out for the first time, and is of a phase
  // that never runs later.
  bool IsGoneBefore(std::size_t allocation) const {
    const std::size_t first = first_left_out_.value_or(0);
    return ended_[allocation].has_value() && *ended_[allocation] < first &&
           last_times_[PhaseOf(allocation)] < first;
  }

 private:
  void FindPhasesBefore(const std::vector<std::string>& without) {
    first_times_.resize(needs_.size(), times_.size());
    last_times_.resize(needs_.size());
    for (std::size_t time = 0; time < times_.size(); ++time) {
      const std::size_t phase = times_[time];
      first_times_[phase] = std::min(first_times_[phase], time);
      last_times_[phase] = time;
      const bool is_left_out = std::ranges::find(without, needs_[phase].name) != without.end();
      if (is_left_out && !first_left_out_.has_value()) first_left_out_ = time;
    }
  }

  std::vector<PhaseNeed> needs_;
  std::vector<std::size_t> times_;                 // the phase of each
  std::vector<std::size_t> first_times_;           // by phase
  std::vector<std::size_t> last_times_;            // likewise
  std::optional<std::size_t> first_left_out_;      // time of a phase that is left out
  std::vector<std::size_t> begun_;                 // by allocation: a time
  std::vector<std::optional<std::size_t>> ended_;  // likewise; no value: never
};

absl::Status CheckNames(const std::vector<PhaseNeed>& phases,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(phases, name, &PhaseNeed::name) != phases.end()) continue;
    std::string known;
    for (std::size_t i = 0; i < std::min(phases.size(), kMostNames); ++i) {
      absl::StrAppend(&known, i == 0 ? "" : ", ", absl::CHexEscape(phases[i].name));
    }
    if (phases.size() > kMostNames) absl::StrAppend(&known, " or another");
    return absl::InvalidArgumentError(absl::StrCat(
        "the trace has no phase \"", absl::CHexEscape(name), "\", expected one of ", known));
  }
  return absl::OkStatus();
}

// Adds bytes to a sum. Allocations that a phase keeps need not be live together, so that nothing
// else limits their sum.
absl::Status Add(std::int64_t bytes, std::int64_t& sum) {
  if (!__builtin_add_overflow(sum, bytes, &sum)) return absl::OkStatus();
  return absl::InvalidArgumentError("phases need 2^63 bytes or more together, expected less");
}

// Counts the bytes of the phases. Returns how long each allocation lives.
absl::StatusOr<std::vector<Stay>> CountStays(const Trace& trace, const Phases& phases,
                                             const PlanProblem& problem,
                                             const std::vector<std::string>& without,
                                             PhaseNeeds& needs) {
  std::vector<Stay> stays(trace.allocations.size());
  std::vector<std::int64_t> work(phases.times());
  std::vector<std::int64_t> handed(phases.times());
  std::vector<std::int64_t> handed_beside(phases.times());  // phases that are left out
  const auto raise = [](std::int64_t& most, std::int64_t bytes) { most = std::max(most, bytes); };
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    const std::size_t i = event.index;
    const std::size_t time = phases.TimeOf(i);
    PhaseNeed& phase = needs.phases[phases.PhaseOf(i)];
    const std::int64_t bytes = problem.buffers[i].bytes;
    if (event.kind == TraceEvent::Kind::kFree) {
      if (stays[i] == Stay::kWork) work[time] -= bytes;
      continue;
    }
    const bool is_counted = std::ranges::find(without, phase.name) == without.end();
    stays[i] = is_counted ? phases.StayOf(i) : Stay::kLeftOut;
    if (stays[i] == Stay::kKept) {
      if (absl::Status status = Add(bytes, phase.kept); !status.ok()) return status;
    }
    if (stays[i] == Stay::kWork) raise(phase.work, work[time] += bytes);
    if (stays[i] != Stay::kHanded) continue;
    raise(phase.handed, handed[time] += bytes);
    if (phases.IsGoneBefore(i)) continue;
    raise(needs.handed, handed_beside[time] += bytes);
    raise(needs.areas, static_cast<std::int64_t>(phases.DelayOf(i)) + 1);
  }
  return stays;
}

// Adds up a phase that keeps memory beside one that is left out.
absl::Status AddUpBeside(PhaseNeed& phase) {
  absl::Status status;
  for (const std::int64_t bytes : {phase.kept, phase.handed, phase.work}) {
    if (status.ok()) status = Add(bytes, phase.beside);
  }
  return status;
}

// Adds the phases up.
absl::Status AddUp(const Phases& phases, PhaseNeeds& needs) {
  for (std::size_t i = 0; i < needs.phases.size(); ++i) {
    PhaseNeed& phase = needs.phases[i];
    absl::Status status = Add(phase.kept, needs.kept);
    if (status.ok() && phase.kept > 0 && phases.IsAfter(i)) status = AddUpBeside(phase);
    if (!status.ok()) return status;
  }
  needs.needed = needs.work;
  absl::Status status = Add(needs.kept, needs.needed);
  for (std::int64_t i = 0; status.ok() && i < needs.areas; ++i) {
    status = Add(needs.handed, needs.needed);
  }
  return status;
}

// Returns the height of a plan for some of the allocations.
template <typename IsWanted>
absl::StatusOr<std::int64_t> HeightOf(const PlanProblem& problem, const NeedsOptions& options,
                                      double seconds, IsWanted is_wanted) {
  PlanProblem wanted = {.buffers = {}, .waits = problem.waits};
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (is_wanted(i)) wanted.buffers.push_back(problem.buffers[i]);
  }
  if (wanted.buffers.empty()) return 0;
  const absl::StatusOr<Plan> plan =
      MakePlan(wanted, {.time_limit_seconds = seconds, .stop = options.stop});
  if (!plan.ok()) return plan.status();
  return plan->height;
}

// Plans the work of all phases but those before the ones that are left out, and all allocations
// before these.
absl::Status PlanHeights(const PlanProblem& problem, const Phases& phases,
                         const std::vector<Stay>& stays, const NeedsOptions& options,
                         PhaseNeeds& needs) {
  const double seconds = options.time_limit_seconds / (options.without.empty() ? 1 : 2);
  const absl::StatusOr<std::int64_t> work = HeightOf(problem, options, seconds, [&](std::size_t i) {
    return stays[i] == Stay::kWork && !phases.IsGoneBefore(i);
  });
  if (!work.ok()) return work.status();
  needs.work = *work;
  const absl::StatusOr<std::int64_t> before =
      HeightOf(problem, options, seconds,
               [&](std::size_t i) { return stays[i] != Stay::kLeftOut && phases.IsMadeBefore(i); });
  if (before.ok()) needs.before = *before;
  return before.status();
}

}  // namespace

absl::StatusOr<PhaseNeeds> FindPhaseNeeds(const Trace& trace, const NeedsOptions& options) {
  if (trace.mark_names.size() == 0) {
    return absl::InvalidArgumentError(
        "the trace has no marks, expected one where each phase begins");
  }
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, options.alignment);
  if (!problem.ok()) return problem.status();
  const Phases phases(trace, options.without);
  if (absl::Status status = CheckNames(phases.needs(), options.without); !status.ok()) {
    return status;
  }
  PhaseNeeds needs = {.phases = phases.needs()};
  const absl::StatusOr<std::vector<Stay>> stays =
      CountStays(trace, phases, *problem, options.without, needs);
  if (!stays.ok()) return stays.status();
  absl::Status status = PlanHeights(*problem, phases, *stays, options, needs);
  if (status.ok()) status = AddUp(phases, needs);
  if (!status.ok()) return status;
  std::erase_if(needs.phases, [&](const PhaseNeed& phase) {
    return std::ranges::find(options.without, phase.name) != options.without.end();
  });
  return needs;
}

}  // namespace tidepool
