// SPDX-License-Identifier: Apache-2.0
// Plans the allocations of each region alone, then follows which regions are awake.
#include "tidepool/trace/region_needs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/memory/plan/waits_of_parts.h"
#include "lib/trace/plan_files/phase_walk.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

constexpr std::size_t kMostListed = 10;  // in an error

// The memory of a region while the trace is followed.
struct Part {
  RegionNeed need;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanWait> waits;  // that matter to the buffers
  bool is_left_out = false;
  bool is_asleep = false;
  std::int64_t live_count = 0;
  std::int64_t live_bytes = 0;
};

bool IsMark(const Trace& trace, std::string_view name) {
  for (std::size_t i = 0; i < trace.mark_names.size(); ++i) {
    if (trace.mark_names[i] == name) return true;
  }
  return false;
}

absl::Status UnknownRegion(const Trace& trace, std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < std::min(trace.region_names.size(), kMostListed); ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ",
                    absl::CHexEscape(std::string(trace.region_names[i])));
  }
  if (trace.region_names.size() > kMostListed) absl::StrAppend(&known, " or another");
  const char* const help =
      IsMark(trace, name) ? "; of a trace with regions, regions are left out and not phases" : "";
  return absl::InvalidArgumentError(absl::StrCat("the trace has no region \"",
                                                 absl::CHexEscape(std::string(name)),
                                                 "\", expected one of ", known, help));
}

// Returns the parts by region; part 0 is of no region.
absl::StatusOr<std::vector<Part>> MakeParts(const Trace& trace, const PlanProblem& problem,
                                            const std::vector<std::string>& without) {
  std::vector<Part> parts(trace.region_names.size() + 1);
  for (std::size_t i = 1; i < parts.size(); ++i) parts[i].need.name = trace.region_names[i - 1];
  for (const std::string& name : without) {
    const auto found = std::find_if(parts.begin() + 1, parts.end(),
                                    [&](const Part& part) { return part.need.name == name; });
    if (found == parts.end()) return UnknownRegion(trace, name);
    found->is_left_out = true;
  }
  std::vector<std::uint32_t> part_of;
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    part_of.push_back(trace.allocations[i].region);
    parts[part_of.back()].buffers.push_back(problem.buffers[i]);
  }
  std::vector<std::vector<PlanWait>> waits = plan::WaitsOfParts(problem, part_of, parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].waits = std::move(waits[i]);
  for (const TracePause& pause : trace.pauses) ++parts[pause.region].need.pauses;
  return parts;
}

// Numbers the streams of a problem from 0 on: a plan takes time for each stream up to the highest.
void NumberStreams(PlanProblem& problem) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  const auto number = [&](std::uint32_t& stream) {
    stream = numbers.try_emplace(stream, static_cast<std::uint32_t>(numbers.size())).first->second;
  };
  for (PlanBuffer& buffer : problem.buffers) {
    number(buffer.stream);
    number(buffer.free_stream);
  }
  for (PlanWait& wait : problem.waits) {
    number(wait.stream);
    number(wait.awaited);
  }
}

// Buffers of one stream need no waits.
bool HasSeveralStreams(const std::vector<PlanBuffer>& buffers) {
  return std::any_of(buffers.begin(), buffers.end(), [&](const PlanBuffer& buffer) {
    return buffer.stream != buffers.front().stream || buffer.free_stream != buffer.stream;
  });
}

absl::Status PlanPart(const NeedsOptions& options, double seconds, Part& part) {
  if (part.buffers.empty()) return absl::OkStatus();
  PlanProblem problem = {.buffers = std::move(part.buffers)};
  if (HasSeveralStreams(problem.buffers)) problem.waits = std::move(part.waits);
  NumberStreams(problem);
  const absl::StatusOr<Plan> plan =
      MakePlan(problem, {.time_limit_seconds = seconds, .stop = options.stop});
  if (plan.ok()) part.need.plan_bytes = plan->height;
  return plan.status();
}

// Follows the regions of a trace.
class AwakeSum {
 public:
  AwakeSum(const Trace& trace, const PlanProblem& problem, std::vector<Part>& parts,
           RegionNeeds& needs)
      : trace_(trace), problem_(problem), parts_(parts), needs_(needs), walk_(trace) {}

  void Follow() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      Step(trace_.events[i]);
      if (trace_.mark_names.size() > 0) CountPhase(trace_.events[i]);
      needs_.peak_awake_bytes = std::max(needs_.peak_awake_bytes, live_bytes_);
      if (planned_bytes_ <= needs_.needed_bytes) continue;
      needs_.needed_bytes = planned_bytes_;
      needs_.needed_event = static_cast<std::int64_t>(i);
    }
  }

 private:
  void Step(const TraceEvent& event) {
    const bool is_sleep =
        event.kind == TraceEvent::Kind::kPause || event.kind == TraceEvent::Kind::kResume;
    if (!is_sleep && !event.TouchesMemory()) return;
    Part& part = parts_[is_sleep ? trace_.pauses[event.index].region
                                 : trace_.allocations[event.index].region];
    if (part.is_left_out) return;
    Count(part, -1);
    if (is_sleep) {
      part.is_asleep = event.kind == TraceEvent::Kind::kPause;
    } else {
      const int sign = event.kind == TraceEvent::Kind::kAllocate ? 1 : -1;
      part.live_count += sign;
      part.live_bytes += sign * problem_.buffers[event.index].bytes;
      part.need.peak_bytes = std::max(part.need.peak_bytes, part.live_bytes);
    }
    Count(part, 1);
  }

  void CountPhase(const TraceEvent& event) {
    walk_.Step(event);
    if (!walk_.now().has_value()) return;
    std::vector<RegionPhase>& phases = needs_.phases;
    const std::size_t number = walk_.times()[*walk_.now()];
    if (number == phases.size()) phases.push_back({.name = walk_.names()[number]});
    RegionPhase& phase = phases[number];
    phase.needed_bytes = std::max(phase.needed_bytes, planned_bytes_);
    phase.times += counted_times_ < walk_.times().size() ? 1 : 0;
    counted_times_ = walk_.times().size();
  }

  // Adds the memory of a part to the sums, or takes it away.
  void Count(const Part& part, int sign) {
    if (part.is_asleep || part.live_count == 0) return;
    planned_bytes_ += sign * part.need.plan_bytes;
    live_bytes_ += sign * part.live_bytes;
  }

  const Trace& trace_;
  const PlanProblem& problem_;
  std::vector<Part>& parts_;
  RegionNeeds& needs_;
  plan_files::PhaseWalk walk_;
  std::size_t counted_times_ = 0;
  std::int64_t planned_bytes_ = 0;
  std::int64_t live_bytes_ = 0;
};

}  // namespace

absl::StatusOr<RegionNeeds> FindRegionNeeds(const Trace& trace, const NeedsOptions& options) {
  if (trace.region_names.size() == 0) {
    return absl::InvalidArgumentError("the trace has no regions, expected at least one");
  }
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, options.alignment);
  if (!problem.ok()) return problem.status();
  absl::StatusOr<std::vector<Part>> parts = MakeParts(trace, *problem, options.without);
  if (!parts.ok()) return parts.status();
  const bool has_untagged = !parts->front().buffers.empty();
  const double seconds = options.time_limit_seconds / static_cast<double>(parts->size());
  RegionNeeds needs;
  for (Part& part : *parts) {
    if (part.is_left_out) continue;
    if (absl::Status status = PlanPart(options, seconds, part); !status.ok()) {
      return status;
    }
    if (__builtin_add_overflow(needs.sleepless_bytes, part.need.plan_bytes,
                               &needs.sleepless_bytes)) {
      return absl::InvalidArgumentError(
          "plans of regions of 2^63 bytes or more together, expected less");
    }
  }
  AwakeSum(trace, *problem, *parts, needs).Follow();
  for (std::size_t i = has_untagged ? 0 : 1; i < parts->size(); ++i) {
    if (!(*parts)[i].is_left_out) needs.regions.push_back(std::move((*parts)[i].need));
  }
  return needs;
}

}  // namespace tidepool
