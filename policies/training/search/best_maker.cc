// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/best_maker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "lib/training/simulate/makespan.h"
#include "policies/training/modnn/modnn_policy.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/search/late_memory.h"
#include "policies/training/search/other_schedules.h"
#include "policies/training/search/reserve_search.h"
#include "policies/training/search/send_high_stays.h"
#include "policies/training/search/small_walk.h"
#include "policies/training/transfers/faster_algorithms.h"
#include "policies/training/transfers/graph_steps.h"
#include "policies/training/transfers/rerun_search.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/program.h"

namespace tidepool::search {
namespace {

using transfers::Iteration;

constexpr char kOwnName[] = "best";
constexpr char kTaken[] = "best: ";      // before the name of another policy
constexpr double kPostponedShare = 0.1;  // of the work, for plans of other policies' schedules
constexpr double kShareOfOther = 0.25;   // of the time limit, for a policy of chains

// Returns a lower bound on the time of any schedule of the graph. It is lower if tasks may run
// again.
double BoundOf(const TaskGraph& graph, Machine machine, bool recomputes,
               const std::vector<double>& densities) {
  machine.devices.front().compute_streams = 1;  // tasks that run at once come later
  Schedule order;
  order.memory = ScheduleMemory::kPaged;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    order.steps.push_back({.kind = StepKind::kRun, .index = task});
    if (recomputes) order.steps.push_back(order.steps.back());
  }
  for (const double density : densities) {
    if (density >= 0) order.steps.push_back({.kind = StepKind::kOffload, .density = density});
  }
  return LowerBoundSeconds({&graph, 1}, order, machine);
}

// Returns the bytes of data that is on the device when an iteration begins.
std::int64_t BytesAtHome(const TaskGraph& graph, std::int64_t granule) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    if (data.before != DataHome::kDevice) continue;
    bytes += RoundUp(data.bytes, granule);
  }
  return bytes;
}

bool RunsTasksAgain(const TaskGraph& graph, const Schedule& schedule) {
  const auto runs =
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ScheduleStep& step) { return step.kind == StepKind::kRun; });
  return static_cast<std::size_t>(runs) > graph.tasks.size();
}

// Whether a schedule sends data to the host that the host neither has nor gets.
bool Offloads(const TaskGraph& graph, const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const ScheduleStep& step) {
    if (step.kind != StepKind::kOffload) return false;
    return graph.data[step.index].after != DataHome::kHost;
  });
}

std::string NameOfTaken(const std::string& policy) {
  if (policy == kOwnName || absl::StartsWith(policy, kTaken)) return policy;
  return absl::StrCat(kTaken, policy);
}

std::string LargestTaskText(const TaskGraph& graph) {
  const GraphTotals totals = TotalsOf(graph);
  return absl::StrCat("the largest task, ",
                      requests::InQuotes(graph.tasks[totals.largest_task_index].name), ", uses ",
                      text::ExactSize(totals.largest_task), " alone");
}

}  // namespace

BestMaker::BestMaker(const TaskGraph& graph, const ScheduleRequest& request,
                     const BestOptions& options, budget::Budget& budget)
    : graph_(graph),
      request_(request),
      options_(options),
      budget_(budget),
      machine_(request.machine),
      repeated_(graph),
      kinds_(Kinds()) {
  machine_.devices.resize(1);
  search_ = {.problem = {.memory_bytes = memory_bytes(),
                         .granule = request.placing.alignment,
                         .rates = transfers::RatesOfDevice(machine_, 0),
                         .densities = options.densities,
                         .offloads = options.offloads},
             .recomputes = options.recomputes,
             .seed = options.seed};
}

// Returns the work that a search over transfers does in these seconds. Trying other transfers is
// several times as fast as trying other tasks that run again.
double BestMaker::TransferWork(double seconds) const {
  const double faster = search_.recomputes ? 5 : 10;
  return transfers::WorkOf(seconds) / 2 * faster;
}

// Charges `work` seconds to the limit. Returns false, and ends the search, if fewer are left: a
// step with a part of its work could find an answer that the whole step of a longer limit misses.
bool BestMaker::TakeWork(double work) {
  constexpr double kRounding = 1e-9;
  const bool is_left = work <= work_left_ + kRounding;
  work_left_ = is_left ? work_left_ - work : 0;
  return is_left;
}

Iteration BestMaker::SearchWith(const Kind& kind, const Algorithms& algorithms, double work) {
  budget::Budget choosing(budget_, transfers::WorkOf(work) / 2, budget_.SecondsLeft() / 2);
  budget::Budget sending(budget_, TransferWork(work));
  const transfers::GoOn go_on = [&](std::size_t done) { return choosing.Take(done); };
  const transfers::GoOn go_on_sending = [&](std::size_t done) { return sending.Take(done); };
  return kind.repeats
             ? repeated_.Search(algorithms, search_, go_on, go_on_sending)
             : transfers::SearchIteration(graph_, algorithms, search_, go_on, go_on_sending);
}

// Changes the data that is sent in an iteration, and the tasks that run again.
void BestMaker::Improve(double work, Iteration& iteration) {
  const bool has_whole_data = search_.problem.part_bytes == 0;
  if (search_.recomputes && has_whole_data) {
    work /= 2;
    budget::Budget changing(budget_, transfers::WorkOf(work));
    transfers::ChangeReruns(
        graph_, search_.problem, search_.seed,
        [&](std::size_t done) { return changing.Take(done); }, iteration);
  }
  budget::Budget sending(budget_, TransferWork(work));
  transfers::SendOtherData(
      search_.seed, [&](std::size_t done) { return sending.Take(done); }, iteration);
  transfers::UseFasterAlgorithms(graph_, search_.problem, iteration);
}

std::string BestMaker::MemoryText() const {
  std::string text = absl::StrCat("the memory of ", text::ExactSize(memory_bytes()));
  if (!options_.offloads) return absl::StrCat(text, " without data that leaves for the host");
  const std::int64_t host = machine_.host.memory_bytes;
  if (host == MachineHost().memory_bytes) return text;
  return absl::StrCat(text, " and to the host's memory of ", text::ExactSize(host));
}

absl::Status BestMaker::DoesNotFit() const {
  const std::int64_t at_home = BytesAtHome(graph_, request_.placing.alignment);
  if (at_home > memory_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule keeps to the memory of ", text::ExactSize(memory_bytes()),
                     ": data at home on the device, such as weights, takes ",
                     text::ExactSize(at_home), " when the iteration begins"));
  }
  return absl::ResourceExhaustedError(absl::StrCat("no schedule was found that keeps to ",
                                                   MemoryText(), "; ", LargestTaskText(graph_)));
}

absl::Status BestMaker::HasNoPlan() const {
  if (least_height_ == kNoHeight) return DoesNotFit();
  return absl::ResourceExhaustedError(absl::StrCat(
      "no plan of addresses was found that keeps to ", MemoryText(), ": the lowest one needs ",
      text::ExactSize(least_height_), "; ", LargestTaskText(graph_), "; pages need no plan"));
}

Schedule BestMaker::StepsOf(const Iteration& iteration) const {
  Schedule schedule =
      transfers::MakeSteps(graph_, iteration.runs, iteration.made, iteration.actions);
  schedule.policy = kOwnName;
  schedule.fingerprint = GraphFingerprint(graph_);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = request_.placing.alignment;
  transfers::CompressCopies(options_.densities, schedule);
  return schedule;
}

// Returns the simulated time; infinite for a schedule that does not fit, or sends data that must
// stay.
double BestMaker::SecondsOf(const Schedule& schedule) const {
  if (!options_.offloads && Offloads(graph_, schedule)) return kNever;
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine_);
  if (!program.ok()) return kNever;
  return simulate::MakespanOf(*program);
}

// Keeps a schedule if it is the fastest.
void BestMaker::Keep(const Schedule& schedule) {
  const double seconds = SecondsOf(schedule);
  for (Kind& kind : kinds_) {
    const bool knows = advanced_ == nullptr || kind.Includes(*advanced_);
    if (knows) kind.seconds_to_beat = std::min(kind.seconds_to_beat, seconds);
  }
  if (seconds >= seconds_) return;
  fastest_ = schedule;
  seconds_ = seconds;
}

// Plans addresses for a paged schedule, and keeps it with them if that is the fastest.
absl::StatusOr<schedule::FixedSchedule> BestMaker::PlanAndKeep(const Schedule& late,
                                                               schedule::PlanEffort effort) {
  const std::int64_t memory = memory_bytes();
  effort.most_seconds = budget_.SecondsLeft();
  effort.whole_seconds = 0;
  effort.stop = options_.stop;
  effort.workspaces = schedule::WorkspaceLife::kWholeRun;
  absl::StatusOr<schedule::FixedSchedule> fixed = schedule::FixAddressesWithin(
      effort, {&graph_, 1}, late, request_.placing.alignment, {&memory, 1});
  if (!fixed.ok()) return fixed;
  least_height_ = std::min(least_height_, fixed->height);
  if (fixed->fits) Keep(fixed->schedule);
  return fixed;
}

// Plans addresses for a paged schedule, with its memory taken late, and keeps it with them if that
// is the fastest. Returns the height of the plan.
std::int64_t BestMaker::PlannedHeight(const Schedule& schedule,
                                      const schedule::PlanEffort& effort) {
  const absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, schedule, machine_);
  if (!late.ok()) return kNoHeight;
  const absl::StatusOr<schedule::FixedSchedule> fixed = PlanAndKeep(*late, effort);
  return fixed.ok() ? fixed->height : kNoHeight;
}

void BestMaker::AddConcurrentCandidate(const Schedule& schedule) {
  constexpr double kPlanShare = 0.1;  // of the work
  AddCandidate(schedule);
  if (WantsPages()) return;
  PlannedHeight(schedule::InPages(schedule),
                {.work_seconds = options_.work_seconds * kPlanShare, .seed = options_.seed});
}

// Keeps a schedule of an earlier call, or of moDNN, if it is valid and the fastest.
void BestMaker::AddKnown(Schedule schedule) {
  if (schedule.fingerprint != GraphFingerprint(graph_)) return;
  if (schedule.memory == ScheduleMemory::kPool || schedule.alignment != request_.placing.alignment)
    return;
  if (!options_.recomputes && RunsTasksAgain(graph_, schedule)) return;
  schedule.rounds.clear();  // an iteration at once may be one round
  if (!ValidateSchedule(graph_, schedule).ok()) return;
  schedule.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) return Keep(schedule::InPages(std::move(schedule)));
  const std::int64_t memory = memory_bytes();
  const bool is_fixed = schedule.memory == ScheduleMemory::kFixed;
  if (is_fixed && ValidateAddresses({&graph_, 1}, schedule, {&memory, 1}).ok()) Keep(schedule);
}

// Keeps the schedule of another policy if it is the fastest. Returns whether a faster one is
// possible.
bool BestMaker::AddOther(const Schedule& schedule) {
  // Addresses change waits, so a schedule that is a little slower with pages may win with
  // addresses.
  constexpr double kFaster = 0.98;
  Schedule own = schedule;
  transfers::CompressCopies(options_.densities, own);
  own.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) {
    Keep(own);
    return !IsFastest();
  }
  if (IsFastest()) return false;
  if (SecondsOf(own) * kFaster >= seconds_) return true;
  if (PlannedHeight(own, {.work_seconds = plan_seconds_, .seed = options_.seed}) > memory_bytes()) {
    postponed_.push_back(std::move(own));
  }
  return !IsFastest();
}

// Plans other policies' schedules again that found no addresses at first, with more work.
void BestMaker::PlanPostponed() {
  if (postponed_.empty()) return;
  plan_seconds_ = options_.work_seconds * kPostponedShare / static_cast<double>(postponed_.size());
  for (const Schedule& schedule : std::exchange(postponed_, {})) AddOther(schedule);
}

// moDNN gives addresses of its own, so its schedule is kept as it is.
void BestMaker::AddModnn() {
  ScheduleRequest own = request_;
  own.options = ModnnOptions();
  own.memory = ScheduleMemory::kFixed;
  absl::StatusOr<Schedule> schedule = modnn::MakeModnn("modnn", graph_, own);
  if (schedule.ok()) AddKnown(*std::move(schedule));
}

// Walks through all schedules of a small graph. Then no other one that copies data as a whole is
// faster.
void BestMaker::AddWalk() {
  // Graphs of up to 8 tasks have a few thousand states, and a state takes microseconds.
  constexpr double kStatesOfASecond = 25'000;  // of work
  constexpr double kMostStates = 100'000;
  const bool has_limit = machine_.host.memory_bytes != MachineHost().memory_bytes;
  if (has_limit || !options_.densities.empty() || !IsForWalk(graph_)) return;
  const double states = std::min(kMostStates, options_.work_seconds * kStatesOfASecond);
  WalkAnswer answer = WalkSmallGraph(graph_, {.memory_bytes = memory_bytes(),
                                              .granule = request_.placing.alignment,
                                              .rates = search_.problem.rates,
                                              .recomputes = options_.recomputes,
                                              .offloads = options_.offloads,
                                              .most_states = static_cast<std::size_t>(states),
                                              .below_seconds = seconds_,
                                              .go_on = [&] { return !budget_.HasEnded(); }});
  if (!answer.is_complete) return;
  if (options_.part_bytes == 0) bound_ = std::max(bound_, std::min(seconds_, answer.seconds));
  if (answer.schedule.steps.empty()) return;
  answer.schedule.policy = kOwnName;
  answer.schedule.fingerprint = GraphFingerprint(graph_);
  answer.schedule.memory = ScheduleMemory::kPaged;
  answer.schedule.alignment = request_.placing.alignment;
  AddOther(answer.schedule);
}

// Other policies that take little time come first, and moDNN after the first round of the search.
void BestMaker::AddFirst() {
  bound_ = BoundOf(graph_, machine_, options_.recomputes, options_.densities);
  const auto take = [&](const Schedule& schedule) { return AddOther(schedule); };
  for (const Schedule& schedule : options_.known) AddKnown(schedule);
  ForEachTransferSchedule(graph_, request_, take);
  if (!IsFastest()) AddWalk();
}

absl::StatusOr<Schedule> BestMaker::Make() {
  AddFirst();
  SearchOwn();
  AddRecomputing();
  return Answer();
}

absl::StatusOr<Schedule> BestMaker::MakeRound(double work) {
  const bool is_first = !std::exchange(has_begun_, true);
  if (is_first) AddFirst();
  work_left_ = work;
  if (!is_first) ++search_.seed;
  if (!IsFastest()) SearchRound(work);
  if (is_first && !IsFastest()) AddModnn();
  if (is_first) AddRecomputing();
  return Answer();
}

void BestMaker::AddRecomputing() {
  if (IsFastest() || !options_.recomputes) return;
  ForEachRecomputeSchedule(graph_, request_, options_.time_limit_seconds * kShareOfOther,
                           [&](const Schedule& schedule) { return AddOther(schedule); });
}

absl::StatusOr<Schedule> BestMaker::Answer() {
  PlanPostponed();
  if (seconds_ == kNever) return HasNoPlan();
  if (IsFastest() && options_.was_proved != nullptr) *options_.was_proved = true;
  return fastest_;
}

void BestMaker::TakeLeads(const BestMaker& other) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    Kind& kind = kinds_[i];
    const Kind& from = other.kinds_[i];
    search_.problem.part_bytes = kind.in_parts ? options_.part_bytes : 0;
    search_.problem.reserve_bytes = 0;
    search_.problem.sends_for_short_times = from.sends_for_short_times;
    if (from.lead.seconds < kNever) {
      Iteration lead = from.lead;
      transfers::Refit(graph_, search_.problem, lead);
      if (lead.seconds < kind.lead.seconds) {
        kind.lead = std::move(lead);
        kind.sends_for_short_times = from.sends_for_short_times;
      }
    }
    if (other.memory_bytes() > memory_bytes() || from.fixed.seconds >= kind.fixed.seconds) continue;
    search_.problem.sends_for_short_times = true;
    kind.fixed = from.fixed;
    transfers::KeepAway(graph_, search_.problem, kind.fixed);
    kind.fixed_offsets = from.fixed_offsets;
    kind.tightens_fixed = true;
  }
}

std::vector<BestMaker::Kind> BestMaker::Kinds() const {
  // Parts that stay fragment the addresses, so iterations of whole data get more of the work.
  constexpr Shares kInParts = {.lead = 0.04, .reserve = 0.02};
  std::vector<Kind> kinds(4);
  kinds[0].shares = {.lead = 0.28, .reserve = 0.08, .repair = 0.2};
  kinds[2].shares = {.lead = 0.12, .reserve = 0.04, .repair = 0.16};
  kinds[1].shares = kinds[3].shares = kInParts;
  kinds[1].in_parts = kinds[3].in_parts = true;
  kinds[0].recomputes = kinds[1].recomputes = true;
  if (!repeated_.is_useful()) return kinds;
  // Iterations that repeat a micro-batch get half as much, before those of all tasks: in large
  // graphs the time may end first.
  for (const std::size_t whole : {2, 0}) {
    Kind repeated = kinds[whole];
    repeated.repeats = true;
    for (double* const share :
         {&repeated.shares.lead, &repeated.shares.reserve, &repeated.shares.repair}) {
      *share /= 2;
    }
    kinds.insert(kinds.begin() + static_cast<std::ptrdiff_t>(whole), std::move(repeated));
  }
  return kinds;
}

// Searches in rounds, each with twice the work of the one before it. The limits decide only where
// this sequence ends. So a longer limit finds all that a shorter one does, and on a slower machine
// the search ends after fewer rounds. A limit below the work of the first round makes that round
// smaller.
void BestMaker::SearchOwn() {
  constexpr double kFirstWork = 2.0 / 15;  // four rounds have the work of the default limit
  work_left_ = options_.work_seconds;
  const double first = std::min(kFirstWork, work_left_);
  SearchRound(first);
  if (!IsFastest()) AddModnn();
  for (double work = 2 * first; !HasEnded() && !IsFastest(); work *= 2) {
    ++search_.seed;
    SearchRound(work);
  }
}

// Neither the share of a kind nor the schedules that it must beat depend on kinds that may do more.
// So allowing parts, or tasks that run again, hardly ever makes the answer slower. Kinds with a
// lead that is much slower than the fastest schedule leave their shares to the first of the others.
void BestMaker::SearchRound(double work) {
  std::vector<Kind*> searched;
  double left = 0;
  for (Kind& kind : kinds_) {
    if (!IsAsked(kind)) {
      TakeWork(work * kind.shares.Sum());
    } else if (IsMuchSlower(kind)) {
      left += kind.shares.Sum();
    } else {
      searched.push_back(&kind);
    }
  }
  for (Kind* const kind : searched) {
    const double share = kind->shares.Sum() + std::exchange(left, 0);
    if (HasEnded() || IsFastest()) {
      TakeWork(work * share);
    } else {
      advanced_ = kind;
      Advance(*kind, work * share / kind->shares.Sum());
      advanced_ = nullptr;
    }
  }
  TakeWork(work * left);
}

bool BestMaker::IsAsked(const Kind& kind) const {
  return (!kind.recomputes || options_.recomputes) && (!kind.in_parts || options_.part_bytes > 0);
}

// Whether all iterations of a kind so far are much slower than the fastest schedule. In pages that
// may be an improved lead of the kind itself.
bool BestMaker::IsMuchSlower(const Kind& kind) const {
  constexpr double kMuchSlower = 1.1;
  const double seconds = std::min(kind.lead.seconds, kind.planned.seconds);
  return !kind.choices[0].empty() && seconds > seconds_ * kMuchSlower;
}

void BestMaker::Advance(Kind& kind, double work) {
  search_.recomputes = kind.recomputes;
  search_.problem.part_bytes = kind.in_parts ? options_.part_bytes : 0;
  search_.problem.reserve_bytes = 0;
  const Shares& shares = kind.shares;
  if (!TakeWork(work * shares.lead)) return;
  ImproveLead(kind, work * shares.lead);
  if (IsMuchSlower(kind)) return;
  if (WantsPages()) {
    if (TakeWork(work * shares.OfPlans())) ImprovePaged(kind, work * shares.OfPlans());
    return;
  }
  if (!TakeWork(work * shares.reserve)) return;
  SearchReserve(kind, work * shares.reserve);
  if (kind.seconds_to_beat == kNever && !kind.sends_for_short_times &&
      TakeWork(work * (shares.lead / 4 + shares.reserve))) {
    // No plan fits yet. Data that also leaves for short times may make room for one.
    kind.lead = Iteration();
    FindLead(kind, true, work * shares.lead / 4);
    SearchReserve(kind, work * shares.reserve);
  }
  if (TakeWork(work * shares.repair)) RepairLead(kind, work * shares.repair);
}

// Searches for a lead from the start, takes it if it is faster than the one so far, and improves
// the faster of both. Data may also leave for short times if the graph is short, or if no iteration
// fits otherwise.
void BestMaker::ImproveLead(Kind& kind, double work) {
  constexpr std::size_t kShortGraph = 512;
  const bool is_short = graph_.tasks.size() <= kShortGraph;
  FindLead(kind, false, is_short ? work / 4 : work / 2);
  if (is_short || kind.lead.seconds == kNever) FindLead(kind, true, work / 4);
  search_.problem.sends_for_short_times = kind.sends_for_short_times;
  if (kind.lead.seconds < kNever) Improve(work / 2, kind.lead);
}

// Takes the lead if it is the fastest iteration of its kind so far, and improves that one. The lead
// itself stays as it is, so it is the same in pages and with fixed addresses.
void BestMaker::ImprovePaged(Kind& kind, double work) {
  if (kind.lead.seconds < kind.planned.seconds) kind.planned = kind.lead;
  if (kind.planned.seconds == kNever) return;
  Improve(work, kind.planned);
  Keep(StepsOf(kind.planned));
}

void BestMaker::FindLead(Kind& kind, bool sends_for_short_times, double work) {
  search_.problem.sends_for_short_times = sends_for_short_times;
  std::vector<Algorithms>& choices = kind.choices[sends_for_short_times ? 1 : 0];
  if (choices.empty()) choices = PromisingAlgorithms(graph_, search_);
  for (const Algorithms& algorithms : choices) {
    Iteration next = SearchWith(kind, algorithms, work / static_cast<double>(choices.size()));
    if (next.seconds >= kind.lead.seconds) continue;
    kind.lead = std::move(next);
    kind.sends_for_short_times = sends_for_short_times;
  }
}

// Returns the lead with `bytes` of memory left free.
Iteration BestMaker::LeadWithReserve(const Kind& kind, std::int64_t bytes, double work) {
  Iteration iteration = kind.lead;
  if (bytes == 0) return iteration;
  search_.problem.reserve_bytes = bytes;
  transfers::Refit(graph_, search_.problem, iteration);
  if (iteration.seconds < kNever) Improve(work, iteration);
  search_.problem.reserve_bytes = 0;
  return iteration;
}

// Looks for the least reserve with which the lead has a plan of addresses that fits: enlarges the
// reserve until one fits, then makes it smaller again.
void BestMaker::SearchReserve(Kind& kind, double work) {
  constexpr int kLeastTries = 2;
  constexpr int kMostTries = 12;  // until one fits
  constexpr double kOfATry = 0.1;
  constexpr double kFaster = 0.999;
  kind.planned = Iteration();
  if (kind.lead.seconds * kFaster >= kind.seconds_to_beat) return;
  ReserveSearch reserve(memory_bytes(), kind.reserve_bytes);
  plan_work_ = work;
  const auto goes_on = [&](int tries) {
    if (IsFastest() || budget_.HasEnded() || tries == kMostTries) return false;
    if (reserve.next() > memory_bytes()) return false;
    return tries < kLeastTries || kind.planned.runs.empty() || plan_work_ > 0;
  };
  for (int tries = 0; goes_on(tries); ++tries) {
    Iteration iteration = LeadWithReserve(kind, reserve.next(), work * kOfATry);
    plan_work_ -= work * kOfATry;
    const bool may_be_faster = iteration.seconds * kFaster < kind.seconds_to_beat;
    if (may_be_faster && !PlanWithReserve(kind, work * kOfATry, std::move(iteration), reserve))
      continue;
    if (reserve.next() == 0) return;
    reserve.Suffices();  // only a smaller reserve makes it faster
  }
}

// Plans the addresses of an iteration with the next reserve. Returns whether they fit.
bool BestMaker::PlanWithReserve(Kind& kind, double work, Iteration iteration,
                                ReserveSearch& reserve) {
  // A plan in less work is hardly better than one without a search.
  constexpr double kLeastWork = 0.005;
  absl::StatusOr<Planned> planned =
      PlanNear({.work_seconds = std::max(work, kLeastWork), .seed = search_.seed}, iteration, {});
  const bool fits = planned.ok() && planned->plan.fits;
  if (!fits) reserve.Exceeds(planned.ok() ? planned->plan.height : 2 * memory_bytes());
  kind.reserve_bytes = std::min(reserve.next(), memory_bytes() / 2);
  if (!fits || iteration.seconds >= kind.planned.seconds) return fits;
  kind.planned = std::move(iteration);
  kind.planned_offsets = std::move(planned->plan.offsets);
  return true;
}

// Repairs the lead if its plan does not fit. Each plan begins with the offsets of the plan before
// it, which may be of the round before. Then improves the repaired lead, or else the iteration with
// a reserve, as long as plans fit.
void BestMaker::RepairLead(Kind& kind, double work) {
  constexpr double kOfAPlan = 1.0 / 16;
  constexpr double kFaster = 0.998;
  if (kind.lead.seconds >= kind.seconds_to_beat || IsFastest()) return;
  const schedule::PlanEffort effort = {.work_seconds = work * kOfAPlan, .seed = search_.seed};
  plan_work_ = kind.tightens_fixed ? work / 2 : work;
  if (kind.tightens_fixed) {
    Tighten(effort, kind.fixed, kind.fixed_offsets);
    plan_work_ += work / 2;
  }
  if (kind.lead.seconds < kind.repaired_from * kFaster ||
      kind.repaired.seconds >= kind.seconds_to_beat) {
    kind.repaired = kind.lead;
    kind.repaired_from = kind.lead.seconds;
    kind.repaired_offsets.clear();
  }
  if (Repair(kind, effort, kind.repaired, kind.repaired_offsets)) {
    Tighten(effort, kind.repaired, kind.repaired_offsets);
  } else if (!kind.planned.runs.empty()) {
    Iteration iteration = kind.planned;
    transfers::Refit(graph_, search_.problem, iteration);
    Tighten(effort, std::move(iteration), kind.planned_offsets);
  }
}

// Plans the addresses of an iteration, beginning with the offsets `near`, and keeps it with them if
// that is the fastest. Returns the planned schedule. Charges the work to `plan_work_`.
absl::StatusOr<BestMaker::Planned> BestMaker::PlanNear(schedule::PlanEffort effort,
                                                       const Iteration& iteration,
                                                       const schedule::StayOffsets& near) {
  constexpr double kSecondsOfAStep = 2e-6;  // of work beside the plan
  absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, StepsOf(iteration), machine_);
  if (!late.ok()) return late.status();
  plan_work_ -= effort.work_seconds + kSecondsOfAStep * static_cast<double>(late->steps.size());
  if (!near.empty()) effort.near = &near;
  absl::StatusOr<schedule::FixedSchedule> plan = PlanAndKeep(*late, effort);
  if (!plan.ok()) return plan.status();
  if (plan->fits && iteration.seconds < advanced_->fixed.seconds) {
    advanced_->fixed = iteration;
    advanced_->fixed_offsets = plan->offsets;
  }
  return Planned{*std::move(late), *std::move(plan)};
}

// Lets more data leave until the plan of an iteration fits. Returns false if the iteration gets as
// slow as the fastest schedule first.
bool BestMaker::Repair(const Kind& kind, const schedule::PlanEffort& effort, Iteration& iteration,
                       schedule::StayOffsets& near) {
  constexpr int kMostPlans = 12;
  for (int plans = 0; plans < kMostPlans && iteration.seconds < kind.seconds_to_beat; ++plans) {
    if (plan_work_ <= 0) return false;
    const bool is_first = near.empty();
    absl::StatusOr<Planned> planned = PlanNear(effort, iteration, near);
    if (!planned.ok()) return false;
    near = std::move(planned->plan.offsets);
    if (planned->plan.fits) return true;
    if (is_first)
      continue;  // planned once more from these offsets, fewer bytes lie above the memory
    const auto go_on = [&](std::size_t work) {
      plan_work_ -= static_cast<double>(work) / TransferWork(1);
      return plan_work_ > 0 && !budget_.HasEnded();
    };
    if (!SendHighStays(planned->late, planned->plan.high_stays, go_on, iteration)) return false;
    transfers::FindTimes(iteration);
  }
  return false;
}

// Changes at random which data is away in an iteration with a plan that fits. Keeps a change that
// makes the iteration faster and still has a plan that fits.
void BestMaker::Tighten(schedule::PlanEffort effort, Iteration iteration,
                        schedule::StayOffsets near) {
  constexpr double kFaster = 0.9999;
  constexpr double kShortPlan = 0.1;  // of the work of other plans
  constexpr int kMostFails = 20;      // one after the other
  constexpr int kMostChanges = 2000;
  effort.work_seconds *= kShortPlan;
  for (int fails = 0; fails < kMostFails && plan_work_ > 0 && !budget_.HasEnded();) {
    Iteration next = iteration;
    if (IsFastest() || !transfers::ChangeForLess(next.made.problem, iteration.seconds * kFaster,
                                                 kMostChanges, ++effort.seed, next.is_away)) {
      return;
    }
    transfers::FindTimes(next);
    absl::StatusOr<Planned> planned = PlanNear(effort, next, near);
    const bool fits = planned.ok() && planned->plan.fits;
    fails = fits ? 0 : fails + 1;
    if (!fits) continue;
    iteration = std::move(next);
    near = std::move(planned->plan.offsets);
  }
}

}  // namespace tidepool::search
