// SPDX-License-Identifier: Apache-2.0
#include "policies/offload/best_maker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/schedule/schedule_planning.h"
#include "lib/text/sizes.h"
#include "policies/offload/late_memory.h"
#include "policies/offload/memory_cuts.h"
#include "policies/offload/option_names.h"
#include "policies/offload/other_schedules.h"
#include "policies/transfers/graph_steps.h"
#include "policies/transfers/work_budget.h"
#include "tidepool/schedule/lower_bound.h"
#include "tidepool/schedule/program.h"

namespace tidepool::offload_policies {
namespace {

using transfers::Iteration;
using transfers::WorkBudget;

constexpr double kEqual = 1e-9;         // relative differences of times below this are rounding
constexpr char kTaken[] = "best: ";     // before the name of another policy
constexpr double kLatePlanShare = 0.1;  // of the work: a late plan of another policy's schedule

// Returns a time that no schedule of the graph beats. Tasks that run again lower it.
double BoundOf(const TaskGraph& graph, const Machine& machine, bool recomputes) {
  Schedule order;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    order.steps.push_back({.kind = StepKind::kRun, .index = task});
    if (recomputes) order.steps.push_back(order.steps.back());
  }
  return LowerBoundSeconds({&graph, 1}, order, machine);
}

}  // namespace

BestMaker::BestMaker(const TaskGraph& graph, const ScheduleRequest& request,
                     const BestOptions& options)
    : graph_(graph), request_(request), options_(options), machine_(request.machine) {
  machine_.devices.resize(1);
  const MachineDevice& device = machine_.devices.front();
  const MachineLink& link = machine_.links[device.link];
  search_ = {.problem = {.memory_bytes = device.memory_bytes,
                         .granule = request.alignment,
                         .rates = {.out_bytes_per_second = link.out_bytes_per_second,
                                   .in_bytes_per_second = link.in_bytes_per_second,
                                   .latency_seconds = link.latency_seconds,
                                   .full_duplex = link.full_duplex}},
             .recomputes = options.recomputes,
             .seed = options.seed};
}

bool BestMaker::IsFastest() const { return best_seconds_ <= bound_ * (1 + kEqual); }

double BestMaker::WorkSeconds() const {
  return options_.work_seconds > 0 ? options_.work_seconds : options_.time_limit_seconds;
}

// Returns the rest of the time limit; 0 at a stop.
double BestMaker::SecondsLeft() const {
  if (options_.stop.stop_requested()) return 0;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  return std::max(options_.time_limit_seconds - passed.count(), 0.0);
}

Iteration BestMaker::SearchWith(const Algorithms& algorithms, double share) const {
  // A set of transfers is tried several times as fast as an iteration with other tasks. Both clocks
  // run from here on.
  const double faster = search_.recomputes ? 5 : 10;
  const double work = transfers::WorkOf(WorkSeconds()) * share / 2;
  const double seconds = std::min(options_.time_limit_seconds * share, SecondsLeft());
  WorkBudget choosing(work, seconds / 2, options_.stop);
  WorkBudget sending(work * faster, seconds, options_.stop);
  return transfers::SearchIteration(
      graph_, algorithms, search_, [&](std::size_t done) { return choosing.Take(done); },
      [&](std::size_t done) { return sending.Take(done); });
}

// Searches with some choices of algorithms, in a share of the time.
Iteration BestMaker::Search(double share) const {
  Iteration best;
  const std::vector<Algorithms> choices = PromisingAlgorithms(graph_, search_);
  for (const Algorithms& algorithms : choices) {
    Iteration next = SearchWith(algorithms, share / static_cast<double>(choices.size()));
    if (best.actions.empty() || next.seconds < best.seconds) best = std::move(next);
  }
  return best;
}

absl::Status BestMaker::DoesNotFit() const {
  const GraphTotals totals = TotalsOf(graph_);
  return absl::ResourceExhaustedError(absl::StrCat(
      "no schedule was found that keeps to the memory of ", text::ExactSize(memory_bytes()),
      "; the largest task, ", InQuotes(graph_.tasks[totals.largest_task_index].name), ", uses ",
      text::ExactSize(totals.largest_task), " alone"));
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

// Returns the simulated time; infinite for a schedule that does not fit.
double BestMaker::SecondsOf(const Schedule& schedule) const {
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine_);
  if (!program.ok()) return kNever;
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(*program)) seconds = std::max(seconds, times.end);
  return seconds;
}

// Keeps a paged schedule, with addresses unless the request asks for pages, if that is faster than
// the best. Returns the bytes that its plan needs.
std::int64_t BestMaker::HeightOfTaken(const Schedule& schedule, schedule::PlanEffort effort) {
  Schedule own = schedule;
  std::int64_t height = 0;
  if (request_.memory != ScheduleMemory::kPaged) {
    const std::int64_t memory = memory_bytes();
    effort.most_seconds = SecondsLeft();
    effort.whole_seconds = 0;
    effort.stop = options_.stop;
    effort.workspaces = schedule::WorkspaceLife::kWholeRun;
    absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, schedule, machine_);
    if (!late.ok()) return std::numeric_limits<std::int64_t>::max();
    absl::StatusOr<schedule::FixedSchedule> fixed =
        schedule::FixAddressesWithin(effort, {&graph_, 1}, *late, request_.alignment, {&memory, 1});
    if (!fixed.ok()) return std::numeric_limits<std::int64_t>::max();
    if (!fixed->fits) return fixed->height;
    own = std::move(fixed->schedule);
    height = fixed->height;
  }
  const double seconds = SecondsOf(own);
  if (seconds < best_seconds_) {
    best_ = std::move(own);
    best_seconds_ = seconds;
  }
  return height;
}

// Takes the schedule of another policy. Returns whether a faster one is possible.
bool BestMaker::TakeOther(const Schedule& schedule) {
  // A schedule's waits change with its addresses.
  constexpr double kFaster = 0.98;
  if (SecondsOf(schedule) * kFaster >= best_seconds_) return true;
  Schedule own = schedule;
  if (!absl::StartsWith(own.policy, kTaken)) own.policy = absl::StrCat(kTaken, schedule.policy);
  if (HeightOfTaken(own, {.work_seconds = plan_seconds_, .seed = options_.seed}) > memory_bytes()) {
    late_.push_back(std::move(own));
    return true;
  }
  return !IsFastest();
}

// Searches longer for the addresses of other policies' schedules.
void BestMaker::TakeLate() {
  plan_seconds_ = WorkSeconds() * kLatePlanShare;
  for (const Schedule& schedule : std::exchange(late_, {})) TakeOther(schedule);
}

// Other policies come first, because they take little time. Each kind of search has the same share
// whether others run or not, so that parts and tasks that run again never make a schedule slower.
absl::StatusOr<Schedule> BestMaker::Make() {
  bound_ = BoundOf(graph_, machine_, options_.recomputes);
  const auto take = [&](const Schedule& schedule) { return TakeOther(schedule); };
  MakeSending(graph_, request_, take);
  absl::Status status = SearchOwn();
  if (!IsFastest() && options_.recomputes) MakeRunningAgain(graph_, request_, take);
  TakeLate();
  if (best_seconds_ == kNever) return status;
  return std::move(best_);
}

absl::Status BestMaker::SearchOwn() {
  if (IsFastest()) return absl::OkStatus();
  search_.recomputes = false;
  search_.problem.part_bytes = 0;
  absl::Status status = TakeOwn({.first = 0.15, .again = 0.05, .plan = 0.03, .most_tries = 10});
  search_.problem.part_bytes = options_.part_bytes;
  if (!IsFastest() && options_.part_bytes > 0) {
    TakeOwn({.first = 0.05, .again = 0.01, .plan = 0.02, .most_tries = 5}).IgnoreError();
  }
  search_.recomputes = options_.recomputes;
  if (!IsFastest() && options_.recomputes) {
    const absl::Status again =
        TakeOwn({.first = 0.3, .again = 0.05, .plan = 0.02, .most_tries = 5});
    if (!status.ok()) status = again;
  }
  return status;
}

// Searches with more and more memory in reserve until a plan of addresses fits, and then with less
// again.
absl::Status BestMaker::TakeOwn(const Shares& shares) {
  constexpr double kFaster = 0.99;
  constexpr double kEnough = 1.001;  // of the time without a reserve
  double fastest = 0;
  MemoryCuts cuts(memory_bytes());
  search_.runs_again.clear();
  for (int tries = 0; tries < shares.most_tries; ++tries) {
    search_.problem.reserve_bytes = cuts.next();
    Iteration iteration = Search(tries == 0 ? shares.first : shares.again);
    if (tries == 0 && iteration.seconds == kNever) return DoesNotFit();
    if (tries == 0) fastest = iteration.seconds;
    // The reserve makes the schedule faster.
    if (iteration.seconds * kFaster >= best_seconds_) {
      if (tries == 0) break;
      cuts.Suffices();
      continue;
    }
    const std::int64_t height = HeightOfTaken(
        StepsOf(iteration), {.work_seconds = WorkSeconds() * shares.plan,
                             .seed = options_.seed + static_cast<std::uint64_t>(tries)});
    if (height > memory_bytes()) {
      cuts.Exceeds(height);
    } else if (best_seconds_ <= fastest * kEnough) {
      break;
    } else {
      cuts.Suffices();
    }
    search_.runs_again = std::move(iteration.runs_again);
    if (SecondsLeft() == 0 || cuts.next() > memory_bytes() / 2) break;
  }
  if (best_seconds_ < kNever) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no plan of addresses was found that keeps to the memory of ",
                   text::ExactSize(memory_bytes())));
}

}  // namespace tidepool::offload_policies
