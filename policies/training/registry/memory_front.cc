// SPDX-License-Identifier: Apache-2.0
// Makes schedules at ascending memories and sub-batches, and keeps those that no other one beats.
#include "tidepool/training/memory_front.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "lib/base/text/sizes.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "policies/training/registry/policy_table.h"
#include "policies/training/requests/policy_table.h"
#include "policies/training/requests/request_check.h"
#include "policies/training/rounds/device_iteration.h"
#include "policies/training/rounds/front_sub_batches.h"
#include "policies/training/search/best_policy.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using registry::AllPolicies;
using requests::MakeForGraph;
using requests::OffloadPolicy;
using rounds::FrontSubBatch;

constexpr std::int64_t kUnlimitedMemory = std::int64_t{1} << 60;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kWorthwhile = 1e-3;          // a search for less does not pay
constexpr double kWorkShare = 0.75;           // of the time limit, so that no clock ends the work
constexpr double kAddressedShare = 1.0 / 16;  // of the work: plans of other schedules
// Seconds that the least work of a search takes for each task of the graph, about.
constexpr double kLeastWorkSecondsOfATask = 2e-4;

// Returns the policy with addresses of the planner in the place of its own.
OffloadPolicy Planned(OffloadPolicy policy) {
  policy.make_round = [make = policy.make_round](
                          std::string_view name, const TaskGraph& graph,
                          const ScheduleRequest& request) -> absl::StatusOr<Schedule> {
    absl::StatusOr<Schedule> schedule = make(name, graph, request);
    if (!schedule.ok()) return schedule;
    schedule->policy += ", planned";
    return schedule::InPages(*std::move(schedule));
  };
  policy.rounds_keep_addresses = false;
  return policy;
}

// A policy that gives addresses of its own to rounds.
struct AddressedPolicy {
  const OffloadPolicy& own;
  OffloadPolicy planned;
};

std::vector<AddressedPolicy> AddressedPolicies(bool may_send) {
  std::vector<AddressedPolicy> policies;
  for (const OffloadPolicy& policy : AllPolicies()) {
    if (!policy.rounds_keep_addresses || (policy.sends && !may_send)) continue;
    policies.push_back({policy, Planned(policy)});
  }
  return policies;
}

// Returns a policy that keeps all data on the device.
const OffloadPolicy& StayingPolicy() {
  const requests::PolicyTable policies = AllPolicies();
  return *std::ranges::find_if(policies, [](const OffloadPolicy& policy) {
    return policy.MakesRounds() && !policy.sends && !policy.recomputes;
  });
}

const TaskGraph& GraphOfBatch(const std::vector<TaskGraph>& graphs, std::int64_t batch) {
  for (const TaskGraph& graph : graphs) {
    if (graph.batch == batch) return graph;
  }
  return graphs.front();
}

void CountTasks(FrontPoint& point) {
  const Schedule& schedule = point.made.schedule;
  std::vector<ScheduleRound> rounds = schedule.rounds;
  if (rounds.empty()) rounds = {{.steps = schedule.steps.size()}};
  for (const ScheduleRound& round : rounds) {
    const TaskGraph& graph = GraphOfBatch(point.made.graphs, round.batch);
    std::set<std::pair<std::size_t, std::size_t>> ran;
    for (std::size_t i = round.first_step; i < round.first_step + round.steps; ++i) {
      const ScheduleStep& step = schedule.steps[i];
      if (step.kind != StepKind::kRun) continue;
      const std::int64_t workspace =
          graph.tasks[step.index].algorithms[step.algorithm].workspace_bytes;
      if (step.device != kHostDevice) {
        point.workspace_bytes = std::max(point.workspace_bytes, workspace);
      }
      const bool is_first = ran.emplace(step.device, step.index).second;
      if (!is_first) point.recomputed_tasks += round.times;
    }
  }
}

class FrontMaker {
 public:
  FrontMaker(const GraphOrFamily& graphs, const ScheduleRequest& request,
             const FrontOptions& options)
      : graphs_(graphs),
        request_(request),
        options_(options),
        budget_(options.best.time_limit_seconds, options.best.stop) {
    if (options_.best.work_seconds == 0) {
      options_.best.work_seconds = options_.best.time_limit_seconds * kWorkShare;
    }
    options_.best.known.clear();
  }

  absl::StatusOr<MemoryFront> Make() {
    absl::Status status = Check();
    if (status.ok()) status = FindBatch();
    if (status.ok()) status = AddSubBatches();
    if (!status.ok()) return status;
    const absl::StatusOr<std::vector<std::int64_t>> memories = Memories();
    if (!memories.ok()) return memories.status();
    best_ = options_.best;
    best_.work_seconds *= kAddressedShare;
    if (options_.memory_bytes.empty()) TryLeastAddressed(memories->back());
    for (const std::int64_t memory : *memories) TryAddressed(memory);
    work_seconds_left_ = options_.best.work_seconds;
    Search();
    if (options_.memory_bytes.empty() && !front_.points.empty()) FindLeftEnd();
    if (front_.points.empty()) return NothingFits(memories->back());
    front_.stopped = IsOver();
    KeepFront();
    return std::move(front_);
  }

 private:
  // A search that could be made.
  struct Candidate {
    std::int64_t memory_bytes = 0;
    const FrontSubBatch* sub_batch = nullptr;
    double seconds = 0;  // the least that can be expected
  };

  absl::Status Check() {
    absl::Status status = requests::CheckMachine(request_);
    if (!status.ok()) return status;
    if (!std::holds_alternative<std::monostate>(request_.options)) {
      return absl::InvalidArgumentError(
          "a request with options of a policy, expected those of the front alone");
    }
    if (request_.memory.value_or(ScheduleMemory::kFixed) != ScheduleMemory::kFixed) {
      return absl::InvalidArgumentError(
          absl::StrCat("memory of the kind ", std::string(ScheduleMemoryName(*request_.memory)),
                       ", expected fixed addresses"));
    }
    if (options_.memories < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.memories, " memories, expected 1 or more"));
    }
    for (const std::int64_t memory : options_.memory_bytes) {
      if (memory > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a memory of ", memory, " bytes, expected more than 0"));
    }
    return absl::OkStatus();
  }

  const GraphFamily* family() const { return std::get_if<GraphFamily>(&graphs_); }

  absl::Status FindBatch() {
    if (family() == nullptr) {
      const TaskGraph& graph = std::get<TaskGraph>(graphs_);
      batch_ = graph.batch;
      tasks_ = graph.tasks.size();
      return requests::CheckRequestOfGraph(graph, request_);
    }
    const absl::StatusOr<std::int64_t> batch = requests::BatchOfDevice(request_);
    if (!batch.ok()) return batch.status();
    batch_ = *batch;
    tasks_ = family()->graph.tasks.size();
    return absl::OkStatus();
  }

  absl::Status AddSubBatches() {
    const bool has_rounds = options_.modnn.ghost_batch_normalization ||
                            (family() != nullptr && !NormalizesOverBatch(family()->graph));
    absl::StatusOr<std::vector<FrontSubBatch>> found =
        rounds::FindSubBatches(graphs_, batch_, request_, has_rounds);
    if (!found.ok()) return found.status();
    sub_batches_ = *std::move(found);
    front_.ideal_seconds = sub_batches_.back().ideal_seconds();
    return absl::OkStatus();
  }

  // Returns the memories in ascending order.
  absl::StatusOr<std::vector<std::int64_t>> Memories() {
    std::vector<std::int64_t> memories = options_.memory_bytes;
    if (memories.empty()) {
      const absl::StatusOr<std::int64_t> most = MostMemory();
      if (!most.ok()) return most.status();
      memories = InEqualRatios(std::min(Least().least_bytes(), *most), *most);
    }
    std::sort(memories.begin(), memories.end());
    memories.erase(std::unique(memories.begin(), memories.end()), memories.end());
    return memories;
  }

  // Returns the sub-batch that runs in the least memory.
  const FrontSubBatch& Least() const {
    return *std::min_element(sub_batches_.begin(), sub_batches_.end(),
                             [](const FrontSubBatch& a, const FrontSubBatch& b) {
                               return a.least_bytes() < b.least_bytes();
                             });
  }

  // Returns the memory with which all data stays at the largest sub-batch, or the machine's.
  absl::StatusOr<std::int64_t> MostMemory() {
    const std::int64_t limit = request_.machine.devices.front().memory_bytes;
    const absl::StatusOr<MadeSchedule> made =
        MakeAt(StayingPolicy(), sub_batches_.back(), kUnlimitedMemory);
    if (!made.ok()) return made.status();
    const absl::StatusOr<FrontPoint> point = PointOf(*made);
    if (!point.ok()) return point.status();
    return limit > 0 ? std::min(limit, point->memory_bytes) : point->memory_bytes;
  }

  std::vector<std::int64_t> InEqualRatios(std::int64_t least, std::int64_t most) const {
    if (options_.memories == 1) return {most};
    std::vector<std::int64_t> memories;
    memories.reserve(static_cast<std::size_t>(options_.memories));
    const double ratio = static_cast<double>(most) / static_cast<double>(least);
    for (int i = 0; i + 1 < options_.memories; ++i) {
      const double share = static_cast<double>(i) / (options_.memories - 1);
      memories.push_back(
          static_cast<std::int64_t>(static_cast<double>(least) * std::pow(ratio, share)));
    }
    memories.push_back(most);
    return memories;
  }

  // The first point may come late.
  bool IsOver() { return budget_.HasEnded() && (budget_.is_stopped() || !front_.points.empty()); }

  // Makes the schedules of policies with addresses of their own for the least memory that they
  // take, so that the front has a left end before any search.
  void TryLeastAddressed(std::int64_t most) {
    const FrontSubBatch& least = Least();
    for (const AddressedPolicy& policy : addressed_) {
      if (least.modnn_bytes() > most || IsOver()) return;
      Try(policy.own, least, least.modnn_bytes());
    }
  }

  // Makes the schedules of policies with addresses of their own, such as `modnn`, with the least
  // sub-batches first. One that cannot be faster than a schedule of less memory is left out.
  void TryAddressed(std::int64_t memory) {
    constexpr double kSlower = 1.005;  // of an estimate: the policy would be slower too
    FrontMemory tried = {.memory_bytes = memory, .lower_bound_seconds = kNever};
    for (const FrontSubBatch& sub_batch : sub_batches_) {
      const double bound = sub_batch.LeastSeconds(memory);
      tried.lower_bound_seconds = std::min(tried.lower_bound_seconds, bound);
      const double fastest = FastestWithin(memory);
      if (IsOver() || bound >= fastest * (1 - kEqualSeconds)) continue;
      const double estimate = sub_batch.EstimatedSeconds(memory, request_.machine, false);
      if (estimate >= fastest * kSlower) continue;
      for (const AddressedPolicy& policy : addressed_) TryPlannedToo(policy, sub_batch, memory);
    }
    front_.memories.push_back(tried);
  }

  void TryPlannedToo(const AddressedPolicy& policy, const FrontSubBatch& sub_batch,
                     std::int64_t memory) {
    const double fastest = FastestWithin(memory);
    Try(policy.own, sub_batch, memory);
    if (!IsOver() && FastestWithin(memory) < fastest) Try(policy.planned, sub_batch, memory);
  }

  // Searches for faster schedules until the work is used up: in passes over all memories in which
  // one could be faster, each with twice the work of the one before.
  void Search() {
    constexpr double kFirstWorkSeconds = 2.0 / 15;  // seconds at most
    constexpr std::size_t kMostSubBatches = 3;      // that divide the work of a memory
    FindMemories();
    work_seconds_of_memory_ = work_seconds_left_ / static_cast<double>(searched_.size());
    const double most =
        std::max(work_seconds_of_memory_ - WorkSecondsToBegin(), work_seconds_of_memory_ / 2);
    const auto sub_batches = static_cast<double>(std::min(kMostSubBatches, sub_batches_.size()));
    first_work_seconds_ = std::min(kFirstWorkSeconds, most / sub_batches);
    for (double work_seconds = first_work_seconds_; work_seconds <= work_seconds_left_ && !IsOver();
         work_seconds *= 2) {
      std::vector<Candidate> candidates = Candidates();
      if (candidates.empty()) return;
      searches_.clear();
      SearchOnce(std::move(candidates), work_seconds);
      AddMemoriesOfAddressed();
    }
  }

  // Searches where most time could be saved first.
  void SearchOnce(std::vector<Candidate> candidates, double work_seconds) {
    while (work_seconds <= work_seconds_left_ && !IsOver()) {
      std::erase_if(candidates, [&](const Candidate& one) { return GainOf(one) < kWorthwhile; });
      if (candidates.empty()) return;
      NoteFastest();
      const auto next = std::max_element(
          candidates.begin(), candidates.end(),
          [&](const Candidate& a, const Candidate& b) { return RankOf(a) < RankOf(b); });
      const Candidate candidate = *next;
      candidates.erase(next);
      ++searches_[candidate.memory_bytes];
      TryBest(*candidate.sub_batch, candidate.memory_bytes, work_seconds);
    }
  }

  // Searches between the least memory with a schedule and the memory below that has none.
  void FindLeftEnd() {
    constexpr double kApart = 1.02;
    double fails = 0;
    for (const FrontMemory& memory : front_.memories) {
      if (!IsWithin(memory.memory_bytes)) fails = static_cast<double>(memory.memory_bytes);
    }
    for (double fits = LeastMemory(); fits > kApart * fails && fails > 0 && !IsOver();) {
      const auto middle = static_cast<std::int64_t>(std::sqrt(fits * fails));
      TryBest(Least(), middle, 2 * first_work_seconds_);
      if (!IsWithin(middle)) fails = static_cast<double>(middle);
      fits = LeastMemory();
    }
  }

  void TryBest(const FrontSubBatch& sub_batch, std::int64_t memory, double work_seconds) {
    best_.work_seconds = work_seconds;
    Try(BestFor(sub_batch), sub_batch, memory);
  }

  // Finds the memories to search in: those that were tried, each but the last one made as small as
  // a point that needs hardly less.
  void FindMemories() {
    for (const FrontMemory& memory : front_.memories) searched_.insert(memory.memory_bytes);
    for (const FrontPoint& point : front_.points) {
      if (point.seconds > FastestWithin(point.memory_bytes)) continue;
      const auto above = searched_.lower_bound(point.memory_bytes);
      if (!IsNear(point, above)) continue;
      if (*above != front_.memories.back().memory_bytes) searched_.erase(above);
      searched_.insert(point.memory_bytes);
    }
  }

  // Adds the memories of points of other policies that the first searches did not beat.
  void AddMemoriesOfAddressed() {
    for (const FrontPoint& point : front_.points) {
      const bool is_beaten = point.seconds > FastestWithin(point.memory_bytes);
      if (is_beaten || point.made.schedule.policy == best_in_pages_.name) continue;
      if (!IsNear(point, searched_.lower_bound(point.memory_bytes))) {
        searched_.insert(point.memory_bytes);
      }
    }
  }

  // Whether a memory is hardly more than that of a point.
  bool IsNear(const FrontPoint& point, std::set<std::int64_t>::const_iterator memory) const {
    constexpr double kApart = 1.01;
    return memory != searched_.end() &&
           static_cast<double>(*memory) < kApart * static_cast<double>(point.memory_bytes);
  }

  // Where no schedule fits so far, the sub-batch that needs the least memory is searched alone.
  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> candidates;
    const FrontSubBatch& least = Least();
    for (const std::int64_t memory : searched_) {
      for (const FrontSubBatch& sub_batch : sub_batches_) {
        if (!IsWithin(memory) && &sub_batch != &least) continue;
        const double bound = sub_batch.LeastSeconds(memory);
        Candidate candidate = {memory, &sub_batch, bound};
        if (GainOf(candidate) < kWorthwhile) continue;
        candidate.seconds = std::max(
            bound, sub_batch.EstimatedSeconds(memory, request_.machine, options_.best.recomputes));
        if (GainOf(candidate) >= kWorthwhile) candidates.push_back(candidate);
      }
    }
    return candidates;
  }

  // Returns the share of the time that a search can save at most.
  double GainOf(const Candidate& candidate) const {
    if (candidate.seconds == kNever) return 0;
    return 1 - candidate.seconds / FastestWithin(candidate.memory_bytes);
  }

  // Returns the sum of the shares of time that a search can save in all memories that have room for
  // its schedule. Searches at other memories come before further ones at the same.
  double RankOf(const Candidate& candidate) const {
    double sum = GainOf(candidate);
    for (const auto& [memory, fastest] : fastest_) {
      if (memory <= candidate.memory_bytes || candidate.seconds >= fastest) continue;
      sum += 1 - candidate.seconds / fastest;
    }
    const auto searches = searches_.find(candidate.memory_bytes);
    return sum / (searches == searches_.end() ? 1 : 1 + searches->second);
  }

  // Notes the seconds of the fastest schedule in each memory that was tried.
  void NoteFastest() {
    for (const FrontMemory& memory : front_.memories) {
      fastest_[memory.memory_bytes] = FastestWithin(memory.memory_bytes);
    }
  }

  bool IsWithin(std::int64_t memory) const { return FastestWithin(memory) < kNever; }

  double LeastMemory() const {
    std::int64_t least = kUnlimitedMemory;
    for (const FrontPoint& point : front_.points) least = std::min(least, point.memory_bytes);
    return static_cast<double>(least);
  }

  double FastestWithin(std::int64_t memory) const {
    double fastest = kNever;
    for (const FrontPoint& point : front_.points) {
      if (point.memory_bytes <= memory) fastest = std::min(fastest, point.seconds);
    }
    return fastest;
  }

  // Rounds of one size keep the addresses of the search. Those of two sizes need the planner, since
  // weights have one place in all. A batch that is not known, 0, is one round.
  const OffloadPolicy& BestFor(const FrontSubBatch& sub_batch) const {
    const bool has_rest = batch_ > 0 && batch_ % sub_batch.samples() != 0;
    return has_rest ? best_in_pages_ : best_with_addresses_;
  }

  void Try(const OffloadPolicy& policy, const FrontSubBatch& sub_batch, std::int64_t memory) {
    absl::StatusOr<MadeSchedule> made = MakeAt(policy, sub_batch, memory);
    if (made.ok()) {
      absl::StatusOr<FrontPoint> point = PointOf(*std::move(made));
      if (point.ok()) {
        front_.points.push_back(*std::move(point));
      } else {
        last_ = point.status();
      }
    } else {
      last_ = made.status();
    }
  }

  absl::StatusOr<MadeSchedule> MakeAt(const OffloadPolicy& policy, const FrontSubBatch& sub_batch,
                                      std::int64_t memory) {
    constexpr double kPlanShare = 0.2;  // of the work
    constexpr double kLeastSeconds = 1e-3;
    ScheduleRequest request = request_;
    for (MachineDevice& device : request.machine.devices) device.memory_bytes = memory;
    request.sub_batch = sub_batch.samples();
    const double seconds = std::max(budget_.SecondsLeft(), kLeastSeconds);
    const schedule::PlanEffort effort = {.work_seconds = best_.work_seconds * kPlanShare,
                                         .most_seconds = seconds,
                                         .whole_seconds = 0,
                                         .seed = best_.seed,
                                         .stop = best_.stop};
    best_.time_limit_seconds = seconds;
    if (policy.name == best_in_pages_.name) request.options = best_;
    if (family() == nullptr) {
      return rounds::MakeIteration(policy, std::get<TaskGraph>(graphs_), request, effort);
    }
    return rounds::MakeIteration(policy, *family(), batch_, request, effort);
  }

  // Simulates a schedule.
  static absl::StatusOr<FrontPoint> PointOf(MadeSchedule made) {
    const absl::StatusOr<Timeline> timeline = Simulate(made);
    if (!timeline.ok()) return timeline.status();
    FrontPoint point = {.memory_bytes = timeline->pool_bytes,
                        .seconds = timeline->seconds,
                        .bytes_out = timeline->bytes_out,
                        .bytes_in = timeline->bytes_in,
                        .made = std::move(made)};
    for (const DeviceTimeline& device : timeline->further_devices) {
      point.memory_bytes = std::max(point.memory_bytes, device.pool_bytes);
    }
    return point;
  }

  // A search for a graph in one memory, and the work of its next round.
  struct GraphSearch {
    search::BestSearch search;
    double next_work_seconds = 0;
  };

  // Goes on with the search for a graph in the memory of the request, from the answers in the next
  // memories.
  absl::StatusOr<Schedule> MakeBest(const TaskGraph& graph, const ScheduleRequest& request) {
    const std::int64_t memory = request.machine.devices.front().memory_bytes;
    std::map<std::int64_t, GraphSearch>& searches = graph_searches_[GraphFingerprint(graph)];
    const auto found = searches.find(memory);
    const auto own = found != searches.end() ? found : AddSearch(graph, request, searches);
    if (own != searches.begin()) own->second.search.TakeLeads(std::prev(own)->second.search);
    const auto above = std::next(own);
    if (above != searches.end()) own->second.search.TakeLeads(above->second.search);
    return MakeRounds(own->second);
  }

  double WorkSecondsToBegin() const {
    return static_cast<double>(tasks_) * kLeastWorkSecondsOfATask;
  }

  std::map<std::int64_t, GraphSearch>::iterator AddSearch(
      const TaskGraph& graph, ScheduleRequest request,
      std::map<std::int64_t, GraphSearch>& searches) {
    std::get<BestOptions>(request.options).work_seconds = work_seconds_of_memory_;
    work_seconds_left_ -= WorkSecondsToBegin();
    const std::int64_t memory = request.machine.devices.front().memory_bytes;
    return searches
        .try_emplace(memory, search::BestSearch(AllPolicies(), graph, request, budget_),
                     first_work_seconds_)
        .first;
  }

  // Searches rounds up to that with the work of a search.
  absl::StatusOr<Schedule> MakeRounds(GraphSearch& one) {
    absl::StatusOr<Schedule> made;
    do {
      made = one.search.MakeRound(one.next_work_seconds);
      if (!one.search.IsFastest()) work_seconds_left_ -= one.next_work_seconds;
      one.next_work_seconds *= 2;
    } while (one.next_work_seconds <= best_.work_seconds && !one.search.IsFastest() &&
             !budget_.HasEnded());
    return made;
  }

  static bool HasValidAddresses(const MadeSchedule& made) {
    std::vector<std::int64_t> memory;
    memory.reserve(made.machine.devices.size());
    for (const MachineDevice& device : made.machine.devices) memory.push_back(device.memory_bytes);
    return ValidateAddresses(made.graphs, made.schedule, memory).ok();
  }

  // Removes the points that others beat.
  void KeepFront() {
    std::vector<FrontPoint> all = std::exchange(front_.points, {});
    std::sort(all.begin(), all.end(), [](const FrontPoint& a, const FrontPoint& b) {
      return std::pair(a.memory_bytes, a.seconds) < std::pair(b.memory_bytes, b.seconds);
    });
    double fastest = kNever;
    for (FrontPoint& point : all) {
      if (point.seconds >= fastest * (1 - kEqualSeconds) || !HasValidAddresses(point.made))
        continue;
      fastest = point.seconds;
      CountTasks(point);
      MadeSchedule& made = point.made;
      for (MachineDevice& device : made.machine.devices) device.memory_bytes = point.memory_bytes;
      made.lower_bound_seconds = LowerBoundSeconds(made.graphs, made.schedule, made.machine);
      made.proved = point.seconds <= made.lower_bound_seconds * (1 + kEqualSeconds);
      front_.points.push_back(std::move(point));
    }
  }

  absl::Status NothingFits(std::int64_t most) const {
    if (options_.best.stop.stop_requested()) {
      return absl::CancelledError("the search was stopped before it had a schedule");
    }
    if (!last_.ok() && !absl::IsResourceExhausted(last_)) return last_;
    const FrontSubBatch& least = Least();
    const std::string need =
        family() == nullptr
            ? absl::StrCat("; it needs ", text::ExactSize(least.least_bytes()), " or more")
            : absl::StrCat("; sub-batches of ", least.samples(), " need ",
                           text::ExactSize(least.least_bytes()), " or more");
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule keeps to a memory of ", text::ExactSize(most), need,
                     last_.ok() ? "" : absl::StrCat(": ", std::string(last_.message()))));
  }

  const GraphOrFamily& graphs_;
  const ScheduleRequest& request_;
  FrontOptions options_;
  const std::vector<AddressedPolicy> addressed_ = AddressedPolicies(options_.best.offloads);
  const MakeForGraph make_best_ = [this](std::string_view /*policy*/, const TaskGraph& graph,
                                         const ScheduleRequest& request) {
    return MakeBest(graph, request);
  };
  const OffloadPolicy best_with_addresses_ = {
      .name = search::kBestName, .make_round = make_best_, .rounds_keep_addresses = true};
  const OffloadPolicy best_in_pages_ = {.name = search::kBestName, .make_round = make_best_};
  budget::Budget budget_;
  std::int64_t batch_ = 0;  // of one device
  std::size_t tasks_ = 0;
  std::vector<FrontSubBatch> sub_batches_;
  std::set<std::int64_t> searched_;         // the memories to search in
  std::map<std::int64_t, int> searches_;    // by memory, in one pass
  std::map<std::int64_t, double> fastest_;  // seconds, by memory that was tried
  double work_seconds_left_ = 0;            // for searches
  BestOptions best_;                        // with the limits of the search that runs
  double work_seconds_of_memory_ = 0;       // of all rounds
  double first_work_seconds_ = 0;           // of the first round
  // By the fingerprint of a graph and the memory.
  std::map<std::uint64_t, std::map<std::int64_t, GraphSearch>> graph_searches_;
  absl::Status last_;  // of the last try that failed
  MemoryFront front_;
};

}  // namespace

absl::StatusOr<MemoryFront> MakeFront(const GraphOrFamily& graphs, const ScheduleRequest& request,
                                      const FrontOptions& options) {
  return FrontMaker(graphs, request, options).Make();
}

}  // namespace tidepool
