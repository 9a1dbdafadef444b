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
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/schedule/schedule_planning.h"
#include "lib/text/sizes.h"
#include "policies/offload/layerwise.h"
#include "policies/offload/option_names.h"
#include "policies/offload/other_schedules.h"
#include "policies/offload/policy_options.h"
#include "policies/transfers/graph_steps.h"
#include "policies/transfers/iteration_search.h"
#include "policies/transfers/work_budget.h"
#include "tidepool/schedule/lower_bound.h"
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

// Returns each task's fastest algorithm with at most this workspace.
Algorithms AlgorithmsOf(const TaskGraph& graph, std::int64_t most_workspace) {
  Algorithms algorithms;
  algorithms.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    algorithms.push_back(FastestAlgorithm(task, most_workspace));
  }
  return algorithms;
}

// Returns a time that no schedule of the graph beats. Tasks that run again lower it.
double BoundOf(const TaskGraph& graph, const Machine& machine, bool recomputes) {
  Schedule order;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    order.steps.push_back({.kind = StepKind::kRun, .index = task});
    if (recomputes) order.steps.push_back(order.steps.back());
  }
  return LowerBoundSeconds({&graph, 1}, order, machine);
}

// Returns the choices of algorithms that are tried first: those with the fastest ones up to a limit
// of workspaces, from no limit to no workspace.
std::vector<Algorithms> ChoicesOfAlgorithms(const TaskGraph& graph) {
  constexpr std::int64_t kMostParts = 16;  // of the largest workspace
  std::int64_t largest = 0;
  for (const GraphTask& task : graph.tasks) {
    largest = std::max(largest, task.algorithms.back().workspace_bytes);
  }
  std::vector<Algorithms> choices;
  for (std::int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    choices.push_back(AlgorithmsOf(graph, largest / parts));
  }
  choices.push_back(AlgorithmsOf(graph, kLeastWorkspace));
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  return choices;
}

class BestMaker {
 public:
  BestMaker(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options)
      : graph_(graph), request_(request), options_(options), machine_(request.machine) {
    machine_.devices.resize(1);
    const MachineDevice& device = machine_.devices.front();
    const MachineLink& link = machine_.links[device.link];
    // Plans of addresses are higher where weights and gradients come and go.
    const bool has_pages = request.memory == ScheduleMemory::kPaged;
    search_ = {.problem = {.memory_bytes = device.memory_bytes,
                           .granule = request.alignment,
                           .rates = {.out_bytes_per_second = link.out_bytes_per_second,
                                     .in_bytes_per_second = link.in_bytes_per_second,
                                     .latency_seconds = link.latency_seconds,
                                     .full_duplex = link.full_duplex},
                           .keeps_old_gradients = !has_pages,
                           .sends_data_at_home = has_pages},
               .recomputes = options.recomputes,
               .seed = options.seed};
  }

  absl::StatusOr<Schedule> Make();

 private:
  bool TakeOther(const Schedule& schedule);
  absl::Status SearchOwn();
  absl::Status TakeOwn(double share);
  absl::Status Take(const Schedule& schedule);
  bool IsFastest() const { return best_seconds_ <= bound_ * (1 + kEqual); }
  absl::StatusOr<Schedule> InMemory(const Schedule& schedule) const;
  double SecondsOf(const Schedule& schedule) const;
  double WorkSeconds() const {
    return options_.work_seconds > 0 ? options_.work_seconds : options_.time_limit_seconds;
  }
  std::vector<Algorithms> Promising() const;
  Iteration Search(double share) const;
  Iteration SearchWith(const Algorithms& algorithms, double share) const;
  absl::Status DoesNotFit() const;
  Schedule StepsOf(const Iteration& iteration) const;

  static constexpr double kEqual = 1e-9;  // relative differences of times below this are rounding
  static constexpr char kTaken[] = "best: ";  // before the name of another policy
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  Machine machine_;  // with one device
  IterationOptions search_;
  Schedule best_;  // in pages
  double best_seconds_ = kNever;
  std::vector<Schedule> late_;  // of other policies, with addresses that did not fit at once
  double plan_seconds_ = 0.1;   // of each search for a plan of addresses; more where nothing fits
  double bound_ = 0;            // no schedule is faster, with or without tasks that run again
};

Iteration BestMaker::SearchWith(const Algorithms& algorithms, double share) const {
  // A set of transfers is tried several times as fast as an iteration with other tasks. Both clocks
  // run from here on.
  const double faster = search_.recomputes ? 5 : 10;
  const double work = transfers::WorkOf(WorkSeconds()) * share / 2;
  const double seconds = options_.time_limit_seconds * share;
  WorkBudget choosing(work, seconds / 2, options_.stop);
  WorkBudget sending(work * faster, seconds, options_.stop);
  return transfers::SearchIteration(
      graph_, algorithms, search_, [&](std::size_t done) { return choosing.Take(done); },
      [&](std::size_t done) { return sending.Take(done); });
}

// Returns the two choices of algorithms with the best schedules of no search.
std::vector<Algorithms> BestMaker::Promising() const {
  std::vector<Algorithms> choices = ChoicesOfAlgorithms(graph_);
  constexpr std::size_t kMost = 2;
  if (choices.size() <= kMost) return choices;
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(choices.size());
  for (std::size_t k = 0; k < choices.size(); ++k) {
    const Iteration quick = transfers::SearchIteration(
        graph_, choices[k], search_, [](std::size_t) { return false; },
        [](std::size_t) { return false; });
    order.emplace_back(quick.seconds, k);
  }
  std::sort(order.begin(), order.end());
  std::vector<Algorithms> promising;
  promising.reserve(kMost);
  for (std::size_t k = 0; k < kMost; ++k) promising.push_back(choices[order[k].second]);
  return promising;
}

// Searches with some choices of algorithms, in a share of the time.
Iteration BestMaker::Search(double share) const {
  Iteration best;
  const std::vector<Algorithms> choices = Promising();
  for (const Algorithms& algorithms : choices) {
    Iteration next = SearchWith(algorithms, share / static_cast<double>(choices.size()));
    if (best.actions.empty() || next.seconds < best.seconds) best = std::move(next);
  }
  return best;
}

absl::Status BestMaker::DoesNotFit() const {
  const std::int64_t memory = machine_.devices.front().memory_bytes;
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

// Returns the schedule with addresses, unless the request asks for pages.
absl::StatusOr<Schedule> BestMaker::InMemory(const Schedule& schedule) const {
  if (request_.memory == ScheduleMemory::kPaged) return schedule;
  const std::int64_t memory = machine_.devices.front().memory_bytes;
  return schedule::FixAddressesWithin(plan_seconds_, {&graph_, 1}, schedule, request_.alignment,
                                      {&memory, 1});
}

// Returns the simulated time; infinite for a schedule that does not fit.
double BestMaker::SecondsOf(const Schedule& schedule) const {
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine_);
  if (!program.ok()) return kNever;
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(*program)) seconds = std::max(seconds, times.end);
  return seconds;
}

// Keeps a paged schedule that is faster than the best. Returns an error where its addresses do not
// fit.
absl::Status BestMaker::Take(const Schedule& schedule) {
  const absl::StatusOr<Schedule> in_memory = InMemory(schedule);
  if (!in_memory.ok()) return in_memory.status();
  const double seconds = SecondsOf(*in_memory);
  if (seconds < best_seconds_) {
    best_ = schedule;
    best_seconds_ = seconds;
  }
  return absl::OkStatus();
}

// Takes the schedule of another policy. Returns whether a faster one is possible.
bool BestMaker::TakeOther(const Schedule& schedule) {
  // Addresses make a schedule slower as a rule, so a slow one needs none. A plan that does not fit
  // takes tenths of a second.
  constexpr double kFaster = 0.98;
  if (SecondsOf(schedule) * kFaster >= best_seconds_) return true;
  Schedule own = schedule;
  if (!absl::StartsWith(own.policy, kTaken)) own.policy = absl::StrCat(kTaken, schedule.policy);
  if (!Take(own).ok()) {
    late_.push_back(std::move(own));
    return true;
  }
  return !IsFastest();
}

// Other policies come first, because they take little time. Each kind of search has the same share
// whether others run or not, so that parts and tasks that run again never make a schedule slower.
absl::StatusOr<Schedule> BestMaker::Make() {
  bound_ = BoundOf(graph_, machine_, options_.recomputes);
  const auto take = [&](const Schedule& schedule) { return TakeOther(schedule); };
  MakeSending(graph_, request_, take);
  absl::Status status = SearchOwn();
  if (!IsFastest() && options_.recomputes) MakeRunningAgain(graph_, request_, take);
  // A machine that is busy finds fewer plans, and the other policies have a second for theirs.
  plan_seconds_ = schedule::kPlanSeconds;
  for (const Schedule& schedule : std::exchange(late_, {})) TakeOther(schedule);
  if (best_seconds_ == kNever) status = SearchOwn();
  if (best_seconds_ == kNever) return status;
  return std::move(best_);
}

absl::Status BestMaker::SearchOwn() {
  if (IsFastest()) return absl::OkStatus();
  search_.recomputes = false;
  search_.problem.part_bytes = 0;
  absl::Status status = TakeOwn(0.3);
  search_.problem.part_bytes = options_.part_bytes;
  if (!IsFastest() && options_.part_bytes > 0) TakeOwn(0.1).IgnoreError();
  search_.recomputes = options_.recomputes;
  if (!IsFastest() && options_.recomputes) {
    const absl::Status again = TakeOwn(0.6);
    if (!status.ok()) status = again;
  }
  return status;
}

// Searches, in a share of the time, until a plan of addresses fits.
absl::Status BestMaker::TakeOwn(double share) {
  // Addresses take more than the live bytes where the planner finds no better plan. The search gets
  // so much less memory then.
  constexpr std::array<std::int64_t, 6> kParts = {0, 256, 64, 32, 16, 8};
  constexpr double kFirstShare = 0.5;  // of the share; the rest is that of less memory
  const std::int64_t memory = machine_.devices.front().memory_bytes;
  search_.runs_again.clear();
  absl::Status last;
  for (const std::int64_t part : kParts) {
    search_.problem.memory_bytes = memory - (part == 0 ? 0 : memory / part);
    Iteration iteration =
        Search(share * (part == 0 ? kFirstShare : (1 - kFirstShare) / (kParts.size() - 1)));
    if (iteration.seconds == kNever) return last.ok() ? DoesNotFit() : last;
    if (iteration.seconds >= best_seconds_) return absl::OkStatus();
    last = Take(StepsOf(iteration));
    if (!absl::IsResourceExhausted(last)) return last;
    search_.runs_again = std::move(iteration.runs_again);
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
  if (options->part_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", options->part_bytes, " bytes, expected 0 or more"));
  }
  if (absl::Status status = CheckHomes(graph); !status.ok()) return status;
  return BestMaker(graph, request, *options).Make();
}

}  // namespace tidepool::offload_policies
