// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/fastest_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/training/simulate/makespan.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/search/best_policy.h"
#include "tidepool/training/program.h"

namespace tidepool::search {
namespace {

// Returns the bytes of data that is on the device when an iteration begins.
std::int64_t BytesAtHome(const TaskGraph& graph, std::int64_t granule) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    if (data.before != DataHome::kDevice) continue;
    bytes += RoundUp(data.bytes, granule);
  }
  return bytes;
}

// Whether a schedule sends data to the host that the host neither has nor gets.
bool Offloads(const TaskGraph& graph, const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const ScheduleStep& step) {
    if (step.kind != StepKind::kOffload) return false;
    return graph.data[step.index].after != DataHome::kHost;
  });
}

std::string LargestTaskText(const TaskGraph& graph) {
  const GraphTotals totals = TotalsOf(graph);
  return absl::StrCat("the largest task, ",
                      requests::InQuotes(graph.tasks[totals.largest_task_index].name), ", uses ",
                      text::ExactSize(totals.largest_task), " alone");
}

}  // namespace

Schedule FastestSchedule::AsPaged(Schedule steps) const {
  steps.policy = kBestName;
  steps.fingerprint = GraphFingerprint(graph_);
  steps.memory = ScheduleMemory::kPaged;
  steps.alignment = request_.placing.alignment;
  return steps;
}

double FastestSchedule::SecondsOf(const Schedule& schedule) const {
  if (!options_.offloads && Offloads(graph_, schedule)) return kNever;
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine_);
  if (!program.ok()) return kNever;
  return simulate::MakespanOf(*program);
}

void FastestSchedule::Keep(const Schedule& schedule, const IterationKind& kind) {
  const double seconds = SecondsOf(schedule);
  NoteSeconds(kind, seconds);
  if (seconds >= seconds_) return;
  schedule_ = schedule;
  seconds_ = seconds;
}

void FastestSchedule::NoteSeconds(const IterationKind& kind, double seconds) {
  for (auto& [known, least] : seconds_by_kind_) {
    if (known != kind) continue;
    least = std::min(least, seconds);
    return;
  }
  seconds_by_kind_.emplace_back(kind, seconds);
}

absl::StatusOr<schedule::FixedSchedule> FastestSchedule::PlanAndKeep(const Schedule& paged,
                                                                     schedule::PlanEffort effort,
                                                                     const IterationKind& kind) {
  const std::int64_t memory = memory_bytes();
  effort.most_seconds = budget_.SecondsLeft();
  effort.whole_seconds = 0;
  effort.stop = options_.stop;
  effort.workspaces = schedule::WorkspaceLife::kWholeRun;
  absl::StatusOr<schedule::FixedSchedule> fixed = schedule::FixAddressesWithin(
      effort, {&graph_, 1}, paged, request_.placing.alignment, {&memory, 1});
  if (!fixed.ok()) return fixed;
  least_height_ = std::min(least_height_, fixed->height);
  if (fixed->fits) Keep(fixed->schedule, kind);
  return fixed;
}

double FastestSchedule::SecondsToBeat(const IterationKind& kind) const {
  double least = kNever;
  for (const auto& [other, seconds] : seconds_by_kind_) {
    if (kind.Includes(other)) least = std::min(least, seconds);
  }
  return least;
}

absl::StatusOr<Schedule> FastestSchedule::Answer() const {
  if (seconds_ == kNever) return Refusal();
  return schedule_;
}

std::string FastestSchedule::MemoryText() const {
  std::string text = absl::StrCat("the memory of ", text::ExactSize(memory_bytes()));
  if (!options_.offloads) return absl::StrCat(text, " without data that leaves for the host");
  const std::int64_t host = machine_.host.memory_bytes;
  if (host == MachineHost().memory_bytes) return text;
  return absl::StrCat(text, " and to the host's memory of ", text::ExactSize(host));
}

absl::Status FastestSchedule::Refusal() const {
  const std::int64_t at_home = BytesAtHome(graph_, request_.placing.alignment);
  const bool has_plans = least_height_ != kNoHeight;
  if (!has_plans && at_home > memory_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule keeps to the memory of ", text::ExactSize(memory_bytes()),
                     ": data at home on the device, such as weights, takes ",
                     text::ExactSize(at_home), " when the iteration begins"));
  }
  const absl::Status refusal = absl::ResourceExhaustedError(
      has_plans ? absl::StrCat("no plan of addresses was found that keeps to ", MemoryText(),
                               ": the lowest one needs ", text::ExactSize(least_height_), "; ",
                               LargestTaskText(graph_), "; pages need no plan")
                : absl::StrCat("no schedule was found that keeps to ", MemoryText(), "; ",
                               LargestTaskText(graph_)));
  return budget_.timed_out() ? requests::EndedByClock(refusal) : refusal;
}

}  // namespace tidepool::search
