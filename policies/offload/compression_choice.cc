// Asks the advisor about each offload, with the slack that a simulation leaves it.
#include "policies/offload/compression_choice.h"

#include <algorithm>
#include <limits>

#include "absl/status/statusor.h"
#include "tidepool/compression_advisor.h"

namespace tidepool::offload_policies {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Slack {
  double start = 0;               // of the copy
  double memory_needed = kNever;  // by somebody else
  double data_needed = kNever;    // by a task
};

std::vector<double> StartsOfTasks(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<double> starts(graph.tasks.size());
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineEvent::Kind::kTask) starts[event.index] = event.start;
  }
  return starts;
}

// Backwards over the steps, so that what comes next is known.
std::vector<Slack> SlacksOf(const TaskGraph& graph, const Timeline& timeline) {
  const std::vector<double> starts = StartsOfTasks(graph, timeline);
  std::vector<Slack> slacks(graph.data.size());
  double next_task = kNever;
  std::vector<double> next_use(graph.data.size(), kNever);
  for (auto step = timeline.resolved.steps.rbegin(); step != timeline.resolved.steps.rend();
       ++step) {
    if (step->kind == StepKind::kRun) {
      next_task = starts[step->index];
      for (const std::size_t data : graph.tasks[step->index].reads) next_use[data] = next_task;
      for (const std::size_t data : graph.tasks[step->index].updates) next_use[data] = next_task;
    } else if (step->kind == StepKind::kAwait) {
      slacks[step->index].memory_needed = next_task;
    } else if (step->kind == StepKind::kPrefetch) {
      slacks[step->index].data_needed = next_use[step->index];
    }
  }
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineEvent::Kind::kOffload) slacks[event.index].start = event.start;
  }
  return slacks;
}

}  // namespace

absl::Status ChooseCompression(const TaskGraph& graph, const std::vector<double>& densities,
                               const TimelineOptions& machine, Schedule& schedule) {
  TimelineOptions late = machine;
  late.releases_early = false;  // so that what is awaited is needed
  const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, late);
  if (!timeline.ok()) return timeline.status();
  CompressionAdvisorOptions options;
  options.link_bytes_per_second =
      std::min(machine.out_bytes_per_second, machine.in_bytes_per_second);
  options.threads = machine.compression_threads;
  const absl::StatusOr<CompressionAdvisor> advisor =
      CompressionAdvisor::Create(machine.compression, options);
  if (!advisor.ok()) return advisor.status();
  const std::vector<Slack> slacks = SlacksOf(graph, *timeline);
  for (ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kOffload) continue;
    const Slack& slack = slacks[step.index];
    const absl::StatusOr<CompressionAdvice> advice =
        advisor->Advise({.bytes = graph.data[step.index].bytes,
                         .density = densities[step.index],
                         .seconds_to_leave = slack.memory_needed - slack.start,
                         .seconds_until_needed = slack.data_needed - slack.start});
    if (!advice.ok()) return advice.status();
    if (advice->compress) step.density = densities[step.index];
  }
  return absl::OkStatus();
}

}  // namespace tidepool::offload_policies
