// SPDX-License-Identifier: Apache-2.0
#include "policies/training/rounds/device_iteration.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/training/graph/least_seconds.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "lib/training/simulate/makespan.h"
#include "policies/training/requests/request_check.h"
#include "policies/training/rounds/compose_rounds.h"
#include "policies/training/rounds/exchange_gradients.h"
#include "policies/training/rounds/leaving_rounds.h"
#include "policies/training/rounds/round_graph.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/program.h"
#include "tidepool/training/sub_batch.h"
#include "tidepool/training/timeline.h"

namespace tidepool::rounds {
namespace {

std::vector<std::int64_t> MemoryOfDevices(const Machine& machine) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(machine.devices.size());
  for (const MachineDevice& device : machine.devices) bytes.push_back(device.memory_bytes);
  return bytes;
}

Machine MachineInUse(const ScheduleRequest& request) {
  Machine machine = request.machine;
  machine.devices.resize(request.devices);
  return machine;
}

bool WantsPages(const ScheduleRequest& request) { return request.memory == ScheduleMemory::kPaged; }

// Gives a paged schedule its addresses, unless pages are asked for, and checks that it fits.
absl::Status Finish(const ScheduleRequest& request, const schedule::PlanEffort& effort,
                    MadeSchedule& made) {
  const std::vector<std::int64_t> memory = MemoryOfDevices(made.machine);
  if (!WantsPages(request) && made.schedule.memory == ScheduleMemory::kPaged) {
    absl::StatusOr<schedule::FixedSchedule> fixed = schedule::FixAddressesWithin(
        effort, made.graphs, made.schedule, request.placing.alignment, memory);
    if (!fixed.ok()) return fixed.status();
    if (!fixed->fits) return schedule::DoesNotFit(*fixed, memory);
    made.schedule = std::move(fixed->schedule);
  }
  absl::Status status = made.schedule.memory == ScheduleMemory::kFixed
                            ? ValidateAddresses(made.graphs, made.schedule, memory)
                            : ValidateSchedule(made.graphs, made.schedule);
  if (!status.ok()) return status;
  const absl::StatusOr<Program> program = LowerSchedule(made.graphs, made.schedule, made.machine);
  if (!program.ok()) return program.status();
  made.lower_bound_seconds = LowerBoundSeconds(made.graphs, made.schedule, made.machine);
  made.proved = simulate::MakespanOf(*program) <= made.lower_bound_seconds * (1 + kEqualSeconds);
  return absl::OkStatus();
}

// The least seconds of the tasks that each round repeats, and of the updates.
struct IterationSeconds {
  double round = 0;
  double updates = 0;
};
IterationSeconds LeastSecondsOf(const TaskGraph& graph) {
  IterationSeconds seconds;
  for (const GraphTask& task : graph.tasks) {
    (task.phase == TaskPhase::kUpdate ? seconds.updates : seconds.round) +=
        graph::LeastSeconds(task);
  }
  return seconds;
}

// Returns the largest buffer for additions of gradients.
std::int64_t BufferBytes(const TaskGraph& graph, const ScheduleRequest& request) {
  std::int64_t most = 0;
  if (request.devices == 1 || request.reduction == GradientReduction::kHost) return most;
  const bool is_ring = request.reduction == GradientReduction::kRing;
  for (const GraphData& data : graph.data) {
    if (data.kind != DataKind::kWeightGradient) continue;
    most = std::max(most, is_ring ? RingPartBytes(data.bytes, request.devices) : data.bytes);
  }
  return most;
}

// Returns the request for rounds. A policy with addresses of its own leaves the highest ones to the
// buffer for additions.
ScheduleRequest RequestOfRounds(const requests::OffloadPolicy& policy, const TaskGraph& graph,
                                ScheduleRequest request) {
  const std::int64_t buffer = RoundUp(BufferBytes(graph, request), request.placing.alignment);
  if (!policy.rounds_keep_addresses || buffer == 0) return request;
  std::int64_t& memory = request.machine.devices.front().memory_bytes;
  memory = std::max<std::int64_t>(memory - buffer, 0) / request.placing.alignment *
           request.placing.alignment;
  return request;
}

absl::StatusOr<std::int64_t> ChooseSubBatch(const requests::OffloadPolicy& policy,
                                            const GraphFamily& family, std::int64_t batch,
                                            const ScheduleRequest& request) {
  const std::int64_t some = family.cost_model != nullptr ? batch : family.batches.front();
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, some);
  if (!graph.ok()) return graph.status();
  return policy.choose_sub_batch(family, batch, RequestOfRounds(policy, *graph, request));
}

// An iteration of a family in rounds.
class RoundsMaker {
 public:
  RoundsMaker(const requests::OffloadPolicy& policy, const GraphFamily& family, std::int64_t batch,
              const ScheduleRequest& request, const schedule::PlanEffort& effort)
      : policy_(policy), family_(family), batch_(batch), request_(request), effort_(effort) {}

  absl::StatusOr<MadeSchedule> Make(std::int64_t sub_batch) const {
    absl::StatusOr<MadeSchedule> made = Paged({sub_batch, batch_ / sub_batch, batch_ % sub_batch});
    if (!made.ok()) return made.status();
    if (absl::Status status = Finish(request_, effort_, *made); !status.ok()) return status;
    return made;
  }

  absl::StatusOr<MadeSchedule> MakeLargest() const {
    if (MostBatch() < LeastBatch()) {
      return absl::InvalidArgumentError(absl::StrCat("the family has costs from ", LeastBatch(),
                                                     " samples on, expected some at ", batch_,
                                                     " samples or less, the batch of one device"));
    }
    const absl::StatusOr<std::int64_t> start = LargestPaged();
    if (!start.ok()) return start.status();
    absl::StatusOr<MadeSchedule> made = absl::InvalidArgumentError(
        absl::StrCat("the family has no costs at the rest of any sub-batch up to ", *start,
                     ", expected costs at smaller batches"));
    // A plan of addresses that does not fit takes a second, so large sub-batches shrink faster.
    constexpr std::int64_t kPart = 64;
    for (std::int64_t next = *start; next >= LeastBatch(); next -= 1 + next / kPart) {
      const std::int64_t rest = batch_ % next;
      if (rest > 0 && rest < LeastBatch()) continue;
      made = Make(next);
      if (made.ok() || !absl::IsResourceExhausted(made.status())) break;
    }
    return made;
  }

 private:
  absl::StatusOr<MadeSchedule> Paged(const BatchDivision& division) const {
    MadeSchedule made = {.machine = MachineInUse(request_),
                         .placing = request_.placing,
                         .batch = request_.batch,
                         .sub_batch = division.sub_batch,
                         .rounds = division.rounds(),
                         .reduction = request_.reduction};
    absl::Status status = AddGraph(division.sub_batch, made);
    if (status.ok() && division.rest > 0) status = AddGraph(division.rest, made);
    if (status.ok()) status = CheckNormalization(division, made.graphs.front());
    if (!status.ok()) return status;
    const bool is_whole = division.sub_batch == batch_ && IsAlone();
    status = is_whole ? AddWhole(made) : AddRounds(division, made);
    if (!is_whole && MayLeave(made.graphs.front()) && absl::IsResourceExhausted(status)) {
      status = AddLeavingRounds(division, made);
    }
    if (!status.ok()) return status;
    made.ideal_seconds = IdealSeconds(division, made.graphs);
    return made;
  }

  // Whether one device does all of the iteration.
  bool IsAlone() const { return request_.devices == 1 && !requests::UpdatesOnHost(request_); }

  absl::Status CheckNormalization(const BatchDivision& division, const TaskGraph& graph) const {
    const auto* options = std::get_if<ModnnOptions>(&request_.options);
    if (options == nullptr || options->ghost_batch_normalization || division.rounds() == 1 ||
        !NormalizesOverBatch(graph)) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        absl::StrCat(division.rounds(), " rounds of ", division.sub_batch,
                     " samples normalise over each sub-batch instead of the batch of ", batch_,
                     ", expected one round, or ghost batch normalisation"));
  }

  absl::Status AddGraph(std::int64_t batch, MadeSchedule& made) const {
    absl::StatusOr<TaskGraph> graph = GraphAt(family_, batch);
    if (!graph.ok()) return graph.status();
    made.graphs.push_back(*std::move(graph));
    return absl::OkStatus();
  }

  absl::Status AddWhole(MadeSchedule& made) const {
    absl::StatusOr<Schedule> schedule =
        policy_.make_round(policy_.name, made.graphs.front(), request_);
    if (!schedule.ok()) return schedule.status();
    made.schedule = *std::move(schedule);
    made.schedule.rounds = {{.steps = made.schedule.steps.size(), .batch = made.sub_batch}};
    return absl::OkStatus();
  }

  // Policies with addresses of their own can give weights memory again and again.
  bool MayLeave(const TaskGraph& graph) const {
    return policy_.rounds_keep_addresses && IsAlone() && !WantsPages(request_) &&
           WeightsMayLeave(graph);
  }

  absl::Status AddLeavingRounds(const BatchDivision& division, MadeSchedule& made) const {
    absl::StatusOr<Schedule> schedule = MakeLeavingRounds(policy_, made.graphs, division, request_);
    if (!schedule.ok()) return schedule.status();
    made.schedule = *std::move(schedule);
    return absl::OkStatus();
  }

  absl::Status AddRounds(const BatchDivision& division, MadeSchedule& made) const {
    std::vector<Schedule> rounds;
    RoundGraph first;
    const ScheduleRequest round_request = RequestOfRounds(policy_, made.graphs.front(), request_);
    const bool keeps_addresses = policy_.rounds_keep_addresses;
    for (const TaskGraph& graph : made.graphs) {
      absl::StatusOr<RoundGraph> round = RoundGraphOf(graph, requests::UpdatesOnHost(request_));
      if (!round.ok()) return round.status();
      absl::StatusOr<Schedule> schedule =
          policy_.make_round(policy_.name, round->graph, round_request);
      if (!schedule.ok()) return schedule.status();
      rounds.push_back(keeps_addresses ? *std::move(schedule)
                                       : schedule::InPages(*std::move(schedule)));
      if (rounds.size() == 1) first = *std::move(round);
    }
    made.schedule =
        ComposeRounds(made.graphs.front(), first, rounds,
                      {.division = division,
                       .devices = request_.devices,
                       .cores = requests::UpdatesOnHost(request_) ? request_.machine.host.cores : 0,
                       .reduction = request_.reduction,
                       .buffer_offset = keeps_addresses && !WantsPages(request_)
                                            ? round_request.machine.devices.front().memory_bytes
                                            : -1});
    return absl::OkStatus();
  }

  // The host runs updates at rates of its own, so they do not count there.
  // A table without costs at the whole batch tells the time of the rounds.
  double IdealSeconds(const BatchDivision& division, const std::vector<TaskGraph>& graphs) const {
    const IterationSeconds full = LeastSecondsOf(graphs.front());
    const double updates = requests::UpdatesOnHost(request_) ? 0 : full.updates;
    const absl::StatusOr<TaskGraph> at_once = GraphAt(family_, batch_);
    if (at_once.ok()) return LeastSecondsOf(*at_once).round + updates;
    const double rest = division.rest > 0 ? LeastSecondsOf(graphs.back()).round : 0;
    return full.round * static_cast<double>(division.full) + rest + updates;
  }

  // Returns OK for a sub-batch with a round that fits, and ResourceExhausted for one without.
  absl::Status Try(std::int64_t sub_batch) const {
    const absl::StatusOr<MadeSchedule> made = Paged({.sub_batch = sub_batch, .full = 1});
    if (!made.ok()) return made.status();
    return LowerSchedule(made->graphs, made->schedule, made->machine).status();
  }

  // Return the ends of the range of sub-batches that have costs.
  std::int64_t LeastBatch() const {
    return family_.cost_model != nullptr ? 1 : family_.batches.front();
  }
  std::int64_t MostBatch() const {
    return family_.cost_model != nullptr ? batch_ : std::min(batch_, family_.batches.back());
  }

  // Returns a sub-batch that fits, where the next larger one does not, or the most.
  absl::StatusOr<std::int64_t> LargestPaged() const {
    std::int64_t fits = LeastBatch() - 1;
    std::int64_t fails = MostBatch() + 1;
    absl::Status last;
    for (std::int64_t next = fails - 1; fails - fits > 1; next = fits + (fails - fits) / 2) {
      last = Try(next);
      if (!last.ok() && !absl::IsResourceExhausted(last)) return last;
      (last.ok() ? fits : fails) = next;
    }
    if (fits >= LeastBatch()) return fits;
    return absl::ResourceExhaustedError(
        absl::StrCat("no sub-batch fits; at ", LeastBatch(), ": ", std::string(last.message())));
  }

  const requests::OffloadPolicy& policy_;
  const GraphFamily& family_;
  const std::int64_t batch_;  // of each device
  const ScheduleRequest& request_;
  const schedule::PlanEffort& effort_;
};

}  // namespace

absl::StatusOr<MadeSchedule> MakeIteration(const requests::OffloadPolicy& policy,
                                           const TaskGraph& graph, const ScheduleRequest& request,
                                           const schedule::PlanEffort& effort) {
  absl::StatusOr<Schedule> schedule = policy.make_round(policy.name, graph, request);
  if (!schedule.ok()) return schedule.status();
  const double least = TotalsOf(graph).least_seconds;
  MadeSchedule made = {.schedule = *std::move(schedule),
                       .graphs = {graph},
                       .machine = MachineInUse(request),
                       .placing = request.placing,
                       .batch = graph.batch,
                       .sub_batch = graph.batch,
                       .ideal_seconds = least};
  if (absl::Status status = Finish(request, effort, made); !status.ok()) return status;
  return made;
}

namespace {

absl::StatusOr<MadeSchedule> MakeReduced(const requests::OffloadPolicy& policy,
                                         const GraphFamily& family, std::int64_t batch,
                                         const ScheduleRequest& request,
                                         const schedule::PlanEffort& effort) {
  const RoundsMaker maker(policy, family, batch, request, effort);
  if (request.sub_batch != kLargestSubBatch) {
    return maker.Make(request.sub_batch == kWholeBatch ? batch : request.sub_batch);
  }
  if (policy.choose_sub_batch == nullptr) return maker.MakeLargest();
  const absl::StatusOr<std::int64_t> chosen = ChooseSubBatch(policy, family, batch, request);
  if (!chosen.ok()) return chosen.status();
  return maker.Make(*chosen);
}

absl::StatusOr<double> SecondsOf(const MadeSchedule& made) {
  const absl::StatusOr<Program> program = LowerSchedule(made.graphs, made.schedule, made.machine);
  if (!program.ok()) return program.status();
  return simulate::MakespanOf(*program);
}

// Makes the iteration with each reduction, and returns the fastest. An error is that of the first.
absl::StatusOr<MadeSchedule> MakeFastest(const requests::OffloadPolicy& policy,
                                         const GraphFamily& family, std::int64_t batch,
                                         ScheduleRequest request,
                                         const schedule::PlanEffort& effort) {
  absl::StatusOr<MadeSchedule> fastest = absl::InternalError("no reduction was tried");
  double least = std::numeric_limits<double>::infinity();
  absl::Status first;
  for (const GradientReduction reduction :
       {GradientReduction::kHost, GradientReduction::kFirstDevice, GradientReduction::kRing}) {
    if (reduction == GradientReduction::kHost && request.machine.host.cores == 0) continue;
    request.reduction = reduction;
    absl::StatusOr<MadeSchedule> made = MakeReduced(policy, family, batch, request, effort);
    if (!made.ok() && !absl::IsResourceExhausted(made.status())) return made.status();
    if (!made.ok()) {
      first.Update(made.status());
      continue;
    }
    const absl::StatusOr<double> seconds = SecondsOf(*made);
    if (!seconds.ok()) return seconds.status();
    if (*seconds >= least) continue;
    least = *seconds;
    fastest = std::move(made);
  }
  return fastest.ok() ? std::move(fastest) : first;
}

}  // namespace

absl::StatusOr<MadeSchedule> MakeIteration(const requests::OffloadPolicy& policy,
                                           const GraphFamily& family, std::int64_t batch,
                                           const ScheduleRequest& request,
                                           const schedule::PlanEffort& effort) {
  if (request.reduction != GradientReduction::kAutomatic) {
    return MakeReduced(policy, family, batch, request, effort);
  }
  if (request.devices > 1 && request.machine.peers.exist() && !request.host_updates) {
    return MakeFastest(policy, family, batch, request, effort);
  }
  ScheduleRequest on_host = request;
  on_host.reduction = GradientReduction::kHost;
  return MakeReduced(policy, family, batch, on_host, effort);
}

}  // namespace tidepool::rounds
