// SPDX-License-Identifier: Apache-2.0
#include "policies/offload/best_policy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/text/sizes.h"
#include "policies/offload/chained_policy.h"
#include "policies/offload/option_names.h"
#include "policies/offload/policy_options.h"
#include "policies/transfers/graph_steps.h"
#include "policies/transfers/iteration_search.h"
#include "policies/transfers/work_budget.h"
#include "tidepool/schedule/program.h"

namespace tidepool::offload_policies {
namespace {

using transfers::Iteration;
using transfers::IterationOptions;
using transfers::WorkBudget;
using Algorithms = std::vector<std::size_t>;

absl::Status CheckHomes(const TaskGraph& graph) {
  for (const GraphData& data : graph.data) {
    if (!ExistsAfter(data) || data.before != DataHome::kHost) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(InQuotes(data.name), " is at home on the host, expected weights and their ",
                     "states on the device"));
  }
  return absl::OkStatus();
}

// Returns each task's fastest algorithm, or the first one, with the least workspace.
Algorithms AlgorithmsOf(const TaskGraph& graph, bool fastest) {
  Algorithms algorithms(graph.tasks.size());
  if (!fastest) return algorithms;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const std::vector<TaskAlgorithm>& all = graph.tasks[task].algorithms;
    const auto least = std::min_element(
        all.begin(), all.end(),
        [](const TaskAlgorithm& a, const TaskAlgorithm& b) { return a.seconds < b.seconds; });
    algorithms[task] = static_cast<std::size_t>(least - all.begin());
  }
  return algorithms;
}

class BestMaker {
 public:
  BestMaker(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options)
      : graph_(graph), request_(request), options_(options) {
    const MachineDevice& device = request.machine.devices.front();
    const MachineLink& link = request.machine.links[device.link];
    search_ = {.memory_bytes = device.memory_bytes,
               .granule = request.alignment,
               .rates = {.out_bytes_per_second = link.out_bytes_per_second,
                         .in_bytes_per_second = link.in_bytes_per_second,
                         .latency_seconds = link.latency_seconds,
                         .full_duplex = link.full_duplex},
               .recomputes = options.recomputes,
               .seed = options.seed};
  }

  absl::StatusOr<Schedule> Make();

 private:
  absl::StatusOr<Schedule> MakeOwn();
  double SecondsOf(const Schedule& schedule) const;
  double WorkSeconds() const {
    return options_.work_seconds > 0 ? options_.work_seconds : options_.time_limit_seconds;
  }
  Iteration Search() const;
  absl::Status DoesNotFit() const;
  Schedule StepsOf(const Iteration& iteration) const;
  absl::Status CheckAddresses(const Schedule& schedule) const;

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  IterationOptions search_;
};

// Searches with the fastest algorithms and with those of the least workspace.
Iteration BestMaker::Search() const {
  Iteration best;
  Algorithms last;
  for (const bool fastest : {true, false}) {
    const Algorithms algorithms = AlgorithmsOf(graph_, fastest);
    if (algorithms == last) break;
    // Each choice of algorithms has half of the time. Both clocks run from here on.
    const double quarter = transfers::WorkOf(WorkSeconds()) / 4;
    WorkBudget choosing(quarter, options_.time_limit_seconds / 4, options_.stop);
    WorkBudget sending(quarter, options_.time_limit_seconds / 2, options_.stop);
    Iteration next = transfers::SearchIteration(
        graph_, algorithms, search_, [&](std::size_t work) { return choosing.Take(work); },
        [&](std::size_t work) { return sending.Take(work); });
    if (best.actions.empty() || next.seconds < best.seconds) best = std::move(next);
    last = algorithms;
  }
  return best;
}

absl::Status BestMaker::DoesNotFit() const {
  const std::int64_t memory = request_.machine.devices.front().memory_bytes;
  const GraphTotals totals = TotalsOf(graph_);
  return absl::ResourceExhaustedError(
      absl::StrCat("no schedule was found that keeps to the memory of ", text::ExactSize(memory),
                   "; the largest task, ", InQuotes(graph_.tasks[totals.largest_task_index].name),
                   ", uses ", text::ExactSize(totals.largest_task), " alone"));
}

Schedule BestMaker::StepsOf(const Iteration& iteration) const {
  Schedule schedule =
      transfers::MakeSteps(graph_, iteration.runs, iteration.made, iteration.actions);
  schedule.policy = "best";
  schedule.fingerprint = GraphFingerprint(graph_);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = request_.alignment;
  return schedule;
}

absl::Status BestMaker::CheckAddresses(const Schedule& schedule) const {
  if (request_.memory == ScheduleMemory::kPaged) return absl::OkStatus();
  const std::int64_t memory = request_.machine.devices.front().memory_bytes;
  return FixAddresses({&graph_, 1}, schedule, request_.alignment, {&memory, 1}).status();
}

// Returns the simulated time; infinite for a schedule that does not fit.
double BestMaker::SecondsOf(const Schedule& schedule) const {
  Machine machine = request_.machine;
  machine.devices.resize(1);
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine);
  if (!program.ok()) return std::numeric_limits<double>::infinity();
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(*program)) seconds = std::max(seconds, times.end);
  return seconds;
}

// Takes the schedule of a policy of chains where that is faster.
absl::StatusOr<Schedule> BestMaker::Make() {
  absl::StatusOr<Schedule> best = MakeOwn();
  if (!best.ok() && !absl::IsResourceExhausted(best.status())) return best;
  double seconds = best.ok() ? SecondsOf(*best) : std::numeric_limits<double>::infinity();
  ScheduleRequest request = request_;
  request.options = GraphChainOptions{.chain = {.stop = options_.stop}};
  for (const char* policy : {"greedy", "dynprog", "vdnn-ratio", "autoswap"}) {
    absl::StatusOr<Schedule> other = MakeChained(policy, graph_, request);
    if (!other.ok() || !CheckAddresses(*other).ok()) continue;
    const double other_seconds = SecondsOf(*other);
    if (other_seconds >= seconds) continue;
    seconds = other_seconds;
    best = std::move(other);
    best->policy = absl::StrCat("best: ", best->policy);
  }
  return best;
}

absl::StatusOr<Schedule> BestMaker::MakeOwn() {
  // Addresses take more than the live bytes where the planner finds no better plan. The search gets
  // so much less memory then.
  constexpr std::array<std::int64_t, 5> kParts = {0, 128, 32, 16, 8};
  const std::int64_t memory = search_.memory_bytes;
  absl::Status last;
  for (const std::int64_t part : kParts) {
    search_.memory_bytes = memory - (part == 0 ? 0 : memory / part);
    const Iteration iteration = Search();
    if (iteration.seconds == std::numeric_limits<double>::infinity()) {
      return last.ok() ? DoesNotFit() : last;
    }
    Schedule schedule = StepsOf(iteration);
    last = CheckAddresses(schedule);
    if (last.ok()) return schedule;
    if (!absl::IsResourceExhausted(last)) return last;
  }
  return last;
}

}  // namespace

absl::StatusOr<Schedule> MakeBest(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  const absl::StatusOr<BestOptions> options = OptionsOf<BestOptions>(request);
  if (!options.ok()) return options.status();
  if (!(options->time_limit_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("a time limit of ", options->time_limit_seconds,
                                                   " seconds, expected more than 0"));
  }
  if (!(options->work_seconds >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("work of ", options->work_seconds, " seconds, expected 0 or more"));
  }
  if (absl::Status status = CheckHomes(graph); !status.ok()) return status;
  return BestMaker(graph, request, *options).Make();
}

}  // namespace tidepool::offload_policies
