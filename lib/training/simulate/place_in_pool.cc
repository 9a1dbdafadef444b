// SPDX-License-Identifier: Apache-2.0
// A pool as a source of addresses: one walk over the steps with a block map.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/blocks/geometry.h"
#include "lib/training/schedule/check/check_pool.h"
#include "lib/training/schedule/steps/begin_on_host.h"
#include "lib/training/schedule/steps/leaving_data.h"
#include "lib/training/simulate/device_memory.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// How many data may have been sent and still lie on the device. The first limit that fits is taken.
constexpr std::size_t kMostLeaving[] = {kNoLimit, 32, 16, 8, 4, 2, 1, 0};

constexpr std::int64_t kLargestBoundary = std::int64_t{1} << 30;

bool IsBoundary(std::int64_t alignment) {
  return alignment >= 1 && alignment <= kLargestBoundary &&
         std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

// Returns InvalidArgument for options out of range, and for more memory than the alignment allows.
absl::Status CheckOptions(const PlacingOptions& options, std::int64_t memory_bytes) {
  if (!IsBoundary(options.alignment)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", options.alignment, ", expected a power of two up to ", kLargestBoundary));
  }
  const std::int64_t most = blocks::MaxArenaBytes(options.alignment);
  if (memory_bytes < 0 || memory_bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", memory_bytes, " bytes, expected 0 to ", most));
  }
  if (options.compression_threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.compression_threads, " compression threads, expected 0 or more"));
  }
  return CheckCompressionProfile(options.compression);
}

// A schedule without the offloads for which the host has no room. Data stays from there on: its
// drops and its next prefetch are left out too.
struct KeptSteps {
  Schedule schedule = {};
  std::vector<std::size_t> steps = {};  // by step: its number in the whole schedule
  std::int64_t stayed = 0;
};

class PoolPlacing {
 public:
  // The options are checked, and `plan` is null for other placements. The arguments by reference
  // outlive the placing.
  PoolPlacing(const TaskGraph& graph, const KeptSteps& kept, std::int64_t memory_bytes,
              const PlacingOptions& options, const PlacementPlan* plan, std::size_t most_leaving,
              std::unique_ptr<PlacementPolicy> policy)
      : graph_(graph),
        schedule_(kept.schedule),
        steps_(kept.steps),
        leave_(schedule::OffloadsThatLeave(graph, kept.schedule)),
        plan_(plan),
        most_leaving_(most_leaving),
        memory_(graph, memory_bytes, options.alignment, std::move(policy)),
        positions_(graph.data.size(), leaving_.end()) {
    placed_.schedule = {.policy = schedule_.policy,
                        .fingerprint = schedule_.fingerprint,
                        .steps = {},
                        .memory = ScheduleMemory::kFixed,
                        .alignment = options.alignment};
  }

  absl::StatusOr<PlacedSchedule> Place() {
    for (at_ = 0; at_ < schedule_.steps.size(); ++at_) {
      absl::Status status = Perform(schedule_.steps[at_]);
      if (!status.ok()) return status;
    }
    placed_.resolved = {schedule_.policy, schedule_.fingerprint, placed_.schedule.steps};
    for (ScheduleStep& step : placed_.resolved.steps) step.offset = -1;
    placed_.pool_bytes = memory_.high_water();
    return std::move(placed_);
  }

 private:
  absl::Status Perform(const ScheduleStep& step) {
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch:
        return Take(step);
      case StepKind::kRun:
        return Run(step);
      case StepKind::kFree:
        Free(step);
        break;
      case StepKind::kOffload:
        Offload(step);
        break;
      case StepKind::kDrop:
        if (memory_.Holds(step.index)) Drop(step.index);
        break;
      case StepKind::kSynchronize:
      case StepKind::kReceive:  // not in a pool's schedule, and so is the next
      case StepKind::kAdd:
        Add(step);
        break;
    }
    return absl::OkStatus();
  }

  void Free(const ScheduleStep& step) {
    Leave(step.index);
    Add(step);
    if (memory_.Holds(step.index)) memory_.GiveData(step.index);
  }

  absl::Status Run(const ScheduleStep& step) {
    const TaskAlgorithm& algorithm = graph_.tasks[step.index].algorithms[step.algorithm];
    ScheduleStep placed = step;
    if (algorithm.workspace_bytes > 0) {
      const absl::StatusOr<BlockId> block = TakeBlock(algorithm.workspace_bytes, Hint::kResident);
      if (!block.ok()) return block.status();
      placed.offset = memory_.OffsetOf(*block);
      memory_.Give(*block);
    }
    Add(placed);
    return absl::OkStatus();
  }

  void Offload(const ScheduleStep& step) {
    Add(step);
    if (!leave_[at_]) return;
    positions_[step.index] = leaving_.insert(leaving_.end(), step.index);
    while (leaving_.size() > most_leaving_) Drop(leaving_.front());
  }

  void Add(const ScheduleStep& step) {
    placed_.schedule.steps.push_back(step);
    placed_.steps.push_back(steps_[at_]);
  }

  // Takes the data from `leaving_` where it is there.
  void Leave(std::size_t data) {
    if (positions_[data] == leaving_.end()) return;
    leaving_.erase(positions_[data]);
    positions_[data] = leaving_.end();
  }

  void Drop(std::size_t data) {
    Leave(data);
    Add({.kind = StepKind::kDrop, .index = data});
    memory_.GiveData(data);
  }

  // Takes memory for the data of the step.
  absl::Status Take(const ScheduleStep& step) {
    const absl::StatusOr<BlockId> block = TakeBlock(graph_.data[step.index].bytes, step.hint);
    if (!block.ok()) return block.status();
    memory_.SetBlock(step.index, *block);
    ScheduleStep placed = step;
    placed.offset = memory_.OffsetOf(*block);
    Add(placed);
    return absl::OkStatus();
  }

  absl::StatusOr<BlockId> TakeBlock(std::int64_t bytes, Hint hint) {
    if (plan_ != nullptr) return TakePlannedBlock(bytes);
    BlockId block = memory_.Take(bytes, hint);
    while (block == kNoBlock && !leaving_.empty()) {
      Drop(leaving_.front());
      block = memory_.Take(bytes, hint);
    }
    if (block == kNoBlock) return NoRoomError(bytes);
    return block;
  }

  absl::StatusOr<BlockId> TakePlannedBlock(std::int64_t bytes) {
    const std::vector<PlannedRequest>& requests = plan_->requests();
    const std::size_t request = requests_++;
    if (request >= requests.size() || requests[request].bytes != memory_.Rounded(bytes)) {
      return NotPlannedError(request, bytes);
    }
    const std::int64_t offset = requests[request].offset;
    while (true) {
      const BlockId block = memory_.TakeAt(offset, bytes);
      if (block != kNoBlock) return block;
      const auto in_the_way = std::find_if(leaving_.begin(), leaving_.end(), [&](std::size_t data) {
        return memory_.IsWithin(data, offset, bytes);
      });
      if (in_the_way == leaving_.end()) return NoRoomError(bytes);
      Drop(*in_the_way);
    }
  }

  absl::Status NoRoomError(std::int64_t bytes) const;
  absl::Status NotPlannedError(std::size_t request, std::int64_t bytes) const;

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const std::vector<std::size_t>& steps_;  // numbers in the whole schedule
  const std::vector<bool> leave_;          // by step
  const PlacementPlan* const plan_;
  const std::size_t most_leaving_;
  simulate::DeviceMemory memory_;
  std::list<std::size_t> leaving_;  // data that was sent and not dropped yet, the first sent first
  std::vector<std::list<std::size_t>::iterator> positions_;  // by data: in `leaving_`, or its end
  std::size_t at_ = 0;                                       // the current step
  std::size_t requests_ = 0;                                 // requests of the plan so far
  PlacedSchedule placed_ = {};
};

absl::Status PoolPlacing::NoRoomError(std::int64_t bytes) const {
  const ScheduleStep& step = schedule_.steps[at_];
  const std::string purpose =
      step.kind == StepKind::kRun
          ? "its workspace"
          : absl::StrCat("data ", text::Quoted(graph_.data[step.index].name));
  std::size_t next = at_;
  while (next < schedule_.steps.size() && schedule_.steps[next].kind != StepKind::kRun) ++next;
  const std::string task =
      next == schedule_.steps.size()
          ? "after the last task"
          : absl::StrCat("at task ", text::Quoted(graph_.tasks[schedule_.steps[next].index].name));
  const std::string where =
      plan_ == nullptr
          ? ""
          : absl::StrCat(", at offset ", plan_->requests()[requests_ - 1].offset, " as planned");
  return absl::ResourceExhaustedError(
      absl::StrCat(task, ", step ", steps_[at_], ", ", text::ExactSize(memory_.Rounded(bytes)),
                   " more are needed for ", purpose, where, "; ", memory_.Account()));
}

absl::Status PoolPlacing::NotPlannedError(std::size_t request, std::int64_t bytes) const {
  const std::vector<PlannedRequest>& requests = plan_->requests();
  const std::string expected = request >= requests.size()
                                   ? absl::StrCat("no more than ", requests.size(), " requests")
                                   : absl::StrCat(requests[request].bytes);
  return absl::InvalidArgumentError(absl::StrCat("step ", steps_[at_], ", request ", request,
                                                 " is for ", memory_.Rounded(bytes),
                                                 " bytes, expected ", expected, " as planned"));
}

// Returns, by step, the offloads without room on the host. Each datum has room of its own there:
// for its home, or from its first copy on.
absl::StatusOr<std::vector<bool>> StaysOf(const TaskGraph& graph, const Schedule& schedule,
                                          std::int64_t host_bytes,
                                          const CompressionProfile& compression) {
  std::vector<std::int64_t> rooms(graph.data.size());
  std::int64_t left = host_bytes;
  const std::vector<bool> are_on_host = schedule::BeginOnHost(graph);
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (!are_on_host[i] && data.after != DataHome::kHost) continue;
    if (data.bytes > left) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the host's memory of ", text::ExactSize(host_bytes),
                       " has no room for data ", text::Quoted(data.name), " at home there"));
    }
    left -= rooms[i] = data.bytes;
  }
  std::vector<bool> stays(schedule.steps.size());
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    if (step.kind != StepKind::kOffload) continue;
    const std::int64_t bytes = graph.data[step.index].bytes;
    const std::int64_t room =
        step.density < 0
            ? bytes
            : CompressedBytes(compression, bytes, ZeroValueWord::k32Bits, step.density);
    const std::int64_t more = std::max<std::int64_t>(room - rooms[step.index], 0);
    stays[i] = more > left;
    if (stays[i]) continue;
    left -= more;
    rooms[step.index] += more;
  }
  return stays;
}

KeptSteps WithoutStays(const TaskGraph& graph, const Schedule& schedule,
                       const std::vector<bool>& stays) {
  KeptSteps kept = {.schedule = {schedule.policy, schedule.fingerprint, {}}};
  std::vector<bool> stay(graph.data.size());  // by data, as the next
  std::vector<bool> remain(graph.data.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    const bool comes = step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch;
    if (step.kind == StepKind::kOffload) stay[step.index] = stays[i];
    const bool is_drop = step.kind == StepKind::kDrop && stay[step.index];
    if (is_drop) remain[step.index] = true;
    const bool is_left_out = stays[i] || is_drop || (comes && remain[step.index]);
    if (comes) remain[step.index] = false;
    if (is_left_out) continue;
    kept.schedule.steps.push_back(step);
    kept.steps.push_back(i);
  }
  kept.stayed = std::count(stays.begin(), stays.end(), true);
  return kept;
}

absl::StatusOr<PlacedSchedule> PlaceWithoutPlan(const TaskGraph& graph, const KeptSteps& kept,
                                                std::int64_t memory_bytes,
                                                const PlacingOptions& options) {
  absl::StatusOr<PlacedSchedule> placed;
  for (const std::size_t most_leaving : kMostLeaving) {
    placed = PoolPlacing(graph, kept, memory_bytes, options, nullptr, most_leaving,
                         MakePlacementPolicy(options.placement).value())
                 .Place();
    if (placed.ok()) break;
  }
  return placed;
}

// Makes a plan where the options have none, and takes best-fit where that is too high.
absl::StatusOr<PlacedSchedule> PlaceWithPlan(const TaskGraph& graph, const KeptSteps& kept,
                                             std::int64_t memory_bytes, PlacingOptions options) {
  if (options.plan == nullptr) {
    absl::StatusOr<std::shared_ptr<const PlacementPlan>> plan =
        PlanSchedule(graph, kept.schedule, options.alignment, memory_bytes);
    if (!plan.ok()) return plan.status();
    if ((*plan)->height_bytes() > memory_bytes) {
      options.placement = "best-fit";
      return PlaceWithoutPlan(graph, kept, memory_bytes, options);
    }
    options.plan = *std::move(plan);
  }
  absl::StatusOr<PlacedSchedule> placed =
      PoolPlacing(graph, kept, memory_bytes, options, options.plan.get(), kNoLimit,
                  MakePlacementPolicy("best-fit").value())
          .Place();
  if (placed.ok()) placed->plan = std::move(options.plan);
  return placed;
}

}  // namespace

absl::StatusOr<PlacedSchedule> PlaceInPool(const TaskGraph& graph, const Schedule& schedule,
                                           const Machine& machine, const PlacingOptions& options) {
  absl::Status status = schedule::CheckIsForPool(schedule, "a pool");
  if (status.ok()) status = ValidateSchedule(graph, schedule);
  if (status.ok()) status = ValidateMachine(machine);
  if (!status.ok()) return status;
  const std::int64_t memory_bytes = machine.devices.front().memory_bytes;
  status = CheckOptions(options, memory_bytes);
  if (!status.ok()) return status;
  PlacementContext context;
  if (options.plan != nullptr) context.plans.push_back(options.plan);
  // Another placement refuses a plan.
  status = MakePlacementPolicy(options.placement, context).status();
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<bool>> stays =
      StaysOf(graph, schedule, machine.host.memory_bytes, options.compression);
  if (!stays.ok()) return stays.status();
  const KeptSteps kept = WithoutStays(graph, schedule, *stays);
  absl::StatusOr<PlacedSchedule> placed =
      PlacementTraitsOf(options.placement)->needs_plan
          ? PlaceWithPlan(graph, kept, memory_bytes, options)
          : PlaceWithoutPlan(graph, kept, memory_bytes, options);
  if (placed.ok()) placed->stayed = kept.stayed;
  return placed;
}

}  // namespace tidepool
