// The simulator: a clock for the host and one for each stream, moved on step by step. Steps happen
// in their order, so no queue of events is needed: what a stream does next begins when the stream,
// the host and what it depends on are there.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/blocks/geometry.h"
#include "lib/io/quote.h"
#include "lib/schedule/line_of_data.h"
#include "lib/simulate/device_memory.h"
#include "lib/simulate/host_room.h"
#include "lib/simulate/memory_curve.h"
#include "lib/simulate/timeline_options.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool {
namespace {

using io::Quoted;
using schedule::LineOfData;
using simulate::DeviceMemory;
using simulate::HostRoom;
using simulate::MemoryCurve;

constexpr std::array<std::string_view, 3> kStallReasonNames = {"data", "memory", "synchronize"};

// When something may go on, and what it waited for.
struct Ready {
  double seconds = 0;
  TimelineStall::Reason reason = TimelineStall::Reason::kMemory;
  std::size_t data = 0;

  // Of equals the first stays.
  void Await(const Ready& other) {
    if (other.seconds > seconds) *this = other;
  }
};

class Simulation {
 public:
  // The offloads at the steps in `stays` do not begin, as if the host had no room.
  Simulation(const TaskGraph& graph, const Schedule& schedule, const TimelineOptions& options,
             std::unique_ptr<PlacementPolicy> policy, std::vector<bool> stays)
      : graph_(graph),
        schedule_(schedule),
        options_(options),
        stays_(std::move(stays)),
        threads_(options.compression_threads == 0 ? options.compression.threads
                                                  : options.compression_threads),
        memory_(graph, options.memory_bytes, options.alignment, std::move(policy)),
        host_room_(options.host_bytes),
        leaving_(graph.data.size()),
        data_(graph.data.size()) {
    timeline_.events.reserve(schedule.steps.size());
    timeline_.resolved = {schedule.policy, schedule.fingerprint, {}};
    timeline_.resolved.steps.reserve(schedule.steps.size() * 5 / 4);
  }

  absl::StatusOr<Timeline> Simulate() {
    for (at_ = 0; at_ < schedule_.steps.size(); ++at_) {
      const ScheduleStep& step = schedule_.steps[at_];
      if (absl::Status status = Do(step); !status.ok()) return status;
    }
    Finish();
    return std::move(timeline_);
  }

  // By step: those of before, and the offloads that found no room so far.
  const std::vector<bool>& stays() const { return stays_; }

 private:
  using Reason = TimelineStall::Reason;
  using EventKind = TimelineEvent::Kind;

  struct Datum {
    bool is_out = false;       // it left and was waited for
    double held_since = 0;     // its memory
    double ready = 0;          // the task that wrote or updated it is over
    double used = 0;           // all tasks that used it are over
    double fetched = 0;        // the last copy in is over
    double copied = 0;         // the last copy in either direction is over
    double density = -1;       // with which it was sent out
    std::int64_t on_host = 0;  // bytes that it takes there
  };

  absl::Status Do(const ScheduleStep& step) {
    absl::Status status;
    bool is_kept = true;
    switch (step.kind) {
      case StepKind::kAllocate:
        status = Allocate(step.index, step.hint);
        break;
      case StepKind::kFree:
        Free(step.index);
        break;
      case StepKind::kRun:
        status = Run(step.index, step.algorithm);
        break;
      case StepKind::kOffload:
        is_kept = Offload(step);
        break;
      case StepKind::kAwait:
        if (leaving_.Holds(step.index)) Await(step.index);
        break;
      case StepKind::kPrefetch:
        status = Prefetch(step);
        break;
      case StepKind::kSynchronize:
        Synchronize();
        break;
    }
    if (is_kept) timeline_.resolved.steps.push_back(step);
    return status;
  }

  // When what the step queues on the compute stream would begin.
  double Position() const { return std::max(host_.seconds, compute_.seconds); }

  absl::Status Allocate(std::size_t data, Hint hint) {
    absl::Status status = TakeRoomFor(data, hint);
    data_[data].ready = data_[data].held_since;
    return status;
  }

  absl::Status TakeRoomFor(std::size_t data, Hint hint) {
    absl::StatusOr<BlockId> block = TakeRoom(graph_.data[data].bytes, hint);
    if (!block.ok()) return block.status();
    memory_.SetBlock(data, *block);
    data_[data].held_since = Position();
    return absl::OkStatus();
  }

  absl::StatusOr<BlockId> TakeRoom(std::int64_t bytes, Hint hint) {
    if (options_.plan != nullptr) return TakePlannedRoom(bytes);
    if (options_.releases_early) GiveBackWhatLeft();
    BlockId block = memory_.Take(bytes, hint);
    while (block == kNoBlock && !leaving_.empty()) {
      AwaitUnasked(leaving_.first());
      block = memory_.Take(bytes, hint);
    }
    if (block == kNoBlock) return NoRoom(bytes);
    return block;
  }

  absl::StatusOr<BlockId> TakePlannedRoom(std::int64_t bytes) {
    const std::vector<PlannedRequest>& requests = options_.plan->requests();
    const std::size_t request = planned_++;
    if (request >= requests.size() || requests[request].bytes != memory_.Rounded(bytes)) {
      return NotPlanned(request, bytes);
    }
    const std::int64_t offset = requests[request].offset;
    while (true) {
      const BlockId block = memory_.TakeAt(offset, bytes);
      if (block != kNoBlock) return block;
      const std::size_t in_the_way = leaving_.FirstThat(
          [&](std::size_t data) { return memory_.IsWithin(data, offset, bytes); });
      if (in_the_way == leaving_.end()) return NoRoom(bytes);
      AwaitUnasked(in_the_way);
    }
  }

  void GiveBackWhatLeft() {
    const double now = Position();
    while (!leaving_.empty() && data_[leaving_.first()].copied <= now) {
      AwaitUnasked(leaving_.first());
    }
  }

  void AwaitUnasked(std::size_t data) {
    timeline_.resolved.steps.push_back({.kind = StepKind::kAwait, .index = data});
    Await(data);
  }

  void Await(std::size_t data) {
    leaving_.Leave(data);
    Datum& datum = data_[data];
    datum.is_out = true;
    host_.Await({datum.copied, Reason::kMemory, data});
    GiveDeviceMemory(data, std::max(datum.copied, datum.used));
  }

  void GiveDeviceMemory(std::size_t data, double seconds) {
    memory_.GiveData(data);
    device_.AddBetween(data_[data].held_since, seconds, memory_.Rounded(graph_.data[data].bytes));
  }

  absl::Status NoRoom(std::int64_t bytes) const;
  absl::Status NotPlanned(std::size_t request, std::int64_t bytes) const;

  void Free(std::size_t data) {
    Datum& datum = data_[data];
    const bool is_leaving = leaving_.Holds(data);
    if (is_leaving) leaving_.Leave(data);
    if (!datum.is_out) {
      compute_.Await({datum.copied, Reason::kMemory, data});
      GiveDeviceMemory(data, Position());
    }
    if (datum.is_out || is_leaving) host_room_.GiveBackFreed(Position(), datum.on_host);
  }

  absl::Status Run(std::size_t index, std::size_t algorithm_index) {
    const GraphTask& task = graph_.tasks[index];
    const TaskAlgorithm& algorithm = task.algorithms[algorithm_index];
    BlockId workspace = kNoBlock;
    if (algorithm.workspace_bytes > 0) {
      absl::StatusOr<BlockId> block = TakeRoom(algorithm.workspace_bytes, Hint::kResident);
      if (!block.ok()) return block.status();
      workspace = *block;
    }
    const double start = Start(index);
    const double end = start + algorithm.seconds;
    if (workspace != kNoBlock) {
      memory_.Give(workspace);
      device_.AddBetween(start, end, memory_.Rounded(algorithm.workspace_bytes));
    }
    AddEvent(EventKind::kTask, index, start, end);
    timeline_.compute_seconds += algorithm.seconds;
    Use(task, end);
    task_end_ = end;
    compute_ = {.seconds = end};
    return absl::OkStatus();
  }

  // Of a task; what it waits for is a stall.
  double Start(std::size_t index) {
    const GraphTask& task = graph_.tasks[index];
    Ready ready = compute_;
    ready.Await(host_);
    for (const auto* uses : {&task.reads, &task.updates}) {
      for (const std::size_t data : *uses) ready.Await({data_[data].fetched, Reason::kData, data});
    }
    if (ready.seconds > task_end_) {
      timeline_.stalls.push_back(
          {index, task_end_, ready.seconds - task_end_, ready.reason, ready.data});
    }
    return ready.seconds;
  }

  void Use(const GraphTask& task, double end) {
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) data_[data].used = end;
    }
    for (const auto* uses : {&task.writes, &task.updates}) {
      for (const std::size_t data : *uses) data_[data].ready = end;
    }
  }

  // False when it stays.
  bool Offload(const ScheduleStep& step) {
    Datum& datum = data_[step.index];
    const std::int64_t bytes = graph_.data[step.index].bytes;
    const double start = std::max({out_.seconds, host_.seconds, datum.ready, datum.copied});
    const std::int64_t taken =
        step.density < 0
            ? bytes
            : CompressedBytes(options_.compression, bytes, ZeroValueWord::k32Bits, step.density);
    if (stays_[at_] || !host_room_.Take(start, taken)) {
      stays_[at_] = true;
      ++timeline_.stayed;
      return false;
    }
    const double end = start + CopySeconds(bytes, step.density, TransferDirection::kOffload);
    AddEvent(EventKind::kOffload, step.index, start, end);
    timeline_.bytes_out += bytes;
    datum.density = step.density;
    datum.on_host = taken;
    datum.copied = end;
    SetTail(out_, end, step.index);
    leaving_.Join(step.index);
    return true;
  }

  double CopySeconds(std::int64_t bytes, double density, TransferDirection direction) const {
    const double link = direction == TransferDirection::kOffload ? options_.out_bytes_per_second
                                                                 : options_.in_bytes_per_second;
    return options_.transfer_latency_seconds +
           (density < 0 ? RawSeconds(bytes, link)
                        : TransferSeconds(options_.compression, bytes, ZeroValueWord::k32Bits,
                                          density, direction, link, threads_));
  }

  // Of the stream of copies, both of which may be one.
  void SetTail(Ready& stream, double end, std::size_t data) {
    stream.Await({end, Reason::kSynchronize, data});
    if (options_.one_transfer_at_a_time) out_ = in_ = stream;
  }

  absl::Status Prefetch(const ScheduleStep& step) {
    Datum& datum = data_[step.index];
    if (leaving_.Holds(step.index)) {
      leaving_.Leave(step.index);
      host_room_.GiveBackUnused(datum.copied, datum.on_host);
    }
    if (!datum.is_out) return absl::OkStatus();
    if (absl::Status status = TakeRoomFor(step.index, step.hint); !status.ok()) return status;
    const std::int64_t bytes = graph_.data[step.index].bytes;
    const double start = std::max(in_.seconds, Position());
    const double end = start + CopySeconds(bytes, datum.density, TransferDirection::kPrefetch);
    AddEvent(EventKind::kPrefetch, step.index, start, end);
    timeline_.bytes_in += bytes;
    host_room_.GiveBackFetched(end, datum.on_host);
    datum.is_out = false;
    datum.fetched = datum.copied = end;
    SetTail(in_, end, step.index);
    return absl::OkStatus();
  }

  void Synchronize() {
    Ready all = host_;
    all.Await({compute_.seconds, Reason::kSynchronize, 0});
    all.Await(out_);
    all.Await(in_);
    while (!leaving_.empty()) Await(leaving_.first());
    host_ = all;
  }

  void AddEvent(EventKind kind, std::size_t index, double start, double end) {
    timeline_.events.push_back({kind, index, at_, start, end});
  }

  void Finish();

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const TimelineOptions& options_;
  std::vector<bool> stays_;
  int threads_;
  DeviceMemory memory_;
  HostRoom host_room_;
  MemoryCurve device_;
  schedule::LineOfData leaving_;
  std::vector<Datum> data_;
  std::size_t at_ = 0;       // the step
  std::size_t planned_ = 0;  // requests of the plan so far
  // How far everything is.
  Ready host_;
  Ready compute_;  // with what the stream was made to wait for
  double task_end_ = 0;
  Ready out_;
  Ready in_;
  Timeline timeline_;
};

absl::Status Simulation::NoRoom(std::int64_t bytes) const {
  const ScheduleStep& step = schedule_.steps[at_];
  std::string what = step.kind == StepKind::kRun
                         ? "its workspace"
                         : absl::StrCat("data ", io::Quoted(graph_.data[step.index].name));
  std::size_t next = at_;
  while (next < schedule_.steps.size() && schedule_.steps[next].kind != StepKind::kRun) ++next;
  const std::string task =
      next == schedule_.steps.size()
          ? "after the last task"
          : absl::StrCat("task ", io::Quoted(graph_.tasks[schedule_.steps[next].index].name));
  const std::string where =
      options_.plan == nullptr
          ? ""
          : absl::StrCat(" at offset ", options_.plan->requests()[planned_ - 1].offset,
                         ", as planned");
  return absl::ResourceExhaustedError(absl::StrCat(
      "step ", at_, ", ", task, ": no room for ", what, " of ", bytes,
      " bytes, expected a free block of ", memory_.Rounded(bytes), where, "; ", memory_.Account()));
}

absl::Status Simulation::NotPlanned(std::size_t request, std::int64_t bytes) const {
  const std::vector<PlannedRequest>& requests = options_.plan->requests();
  const std::string expected = request >= requests.size()
                                   ? absl::StrCat("no more than ", requests.size(), " requests")
                                   : absl::StrCat(requests[request].bytes);
  return absl::InvalidArgumentError(absl::StrCat("step ", at_, ", request ", request, " is for ",
                                                 memory_.Rounded(bytes), " bytes, expected ",
                                                 expected, " as planned"));
}

void Simulation::Finish() {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    // What stays, which is weights.
    if (graph_.data[i].kind == DataKind::kWeight) {
      device_.Add(data_[i].held_since, memory_.Rounded(graph_.data[i].bytes));
    }
  }
  timeline_.seconds = std::max({host_.seconds, compute_.seconds, out_.seconds, in_.seconds});
  std::sort(timeline_.events.begin(), timeline_.events.end(),
            [](const TimelineEvent& a, const TimelineEvent& b) {
              return a.start < b.start || (a.start == b.start && a.step < b.step);
            });
  timeline_.device_memory = device_.TakePoints();
  timeline_.host_memory = host_room_.curve().TakePoints();
  timeline_.peak_device_bytes = MemoryCurve::PeakOf(timeline_.device_memory);
  timeline_.peak_host_bytes = MemoryCurve::PeakOf(timeline_.host_memory);
  timeline_.pool_bytes = memory_.high_water();
  timeline_.plan = options_.plan;
}

Schedule WithoutSteps(const Schedule& schedule, const std::vector<bool>& are_left_out) {
  Schedule rest = {schedule.policy, schedule.fingerprint, {}};
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (!are_left_out[i]) rest.steps.push_back(schedule.steps[i]);
  }
  return rest;
}

// What stays when memory is no obstacle: hardly another than with a plan, and found at once.
std::vector<bool> StaysWithPlenty(const TaskGraph& graph, const Schedule& schedule,
                                  TimelineOptions options, std::vector<bool> stays) {
  options.placement = "best-fit";
  options.plan = nullptr;
  options.memory_bytes = blocks::MaxArenaBytes(options.alignment);
  Simulation simulation(graph, schedule, options, MakePlacementPolicy(options.placement).value(),
                        std::move(stays));
  simulation.Simulate().IgnoreError();
  return simulation.stays();
}

// A plan has memory for what is on the device. What stays, because the host has no room, is known
// only when the schedule has run, so it is planned again until nothing more stays.
absl::StatusOr<Timeline> SimulatePlanned(const TaskGraph& graph, const Schedule& schedule,
                                         TimelineOptions options) {
  std::vector<bool> stays(schedule.steps.size());
  for (bool is_first = true; true; is_first = false) {
    absl::StatusOr<std::shared_ptr<const PlacementPlan>> plan =
        PlanSchedule(graph, WithoutSteps(schedule, stays), options.alignment, options.memory_bytes);
    if (!plan.ok()) return plan.status();
    if ((*plan)->height_bytes() > options.memory_bytes) {
      options.placement = "best-fit";
      options.plan = nullptr;
      return Simulate(graph, schedule, options);
    }
    options.plan = *std::move(plan);
    Simulation simulation(graph, schedule, options, MakePlacementPolicy(options.placement).value(),
                          stays);
    absl::StatusOr<Timeline> timeline = simulation.Simulate();
    if (simulation.stays() == stays) return timeline;
    stays = simulation.stays();
    if (is_first) stays = StaysWithPlenty(graph, schedule, options, std::move(stays));
  }
}

}  // namespace

std::string_view StallReasonName(TimelineStall::Reason reason) {
  return kStallReasonNames[static_cast<std::size_t>(reason)];
}

absl::StatusOr<Timeline> Simulate(const TaskGraph& graph, const Schedule& schedule,
                                  const TimelineOptions& options) {
  absl::Status status = ValidateSchedule(graph, schedule);
  if (status.ok()) status = simulate::CheckTimelineOptions(options);
  if (!status.ok()) return status;
  PlacementContext context;
  if (options.plan != nullptr) context.plans.push_back(options.plan);
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy =
      MakePlacementPolicy(options.placement, context);
  if (!policy.ok()) return policy.status();
  if (PlacementTraitsOf(options.placement)->needs_plan && options.plan == nullptr) {
    return SimulatePlanned(graph, schedule, options);
  }
  return Simulation(graph, schedule, options, std::move(*policy),
                    std::vector<bool>(schedule.steps.size()))
      .Simulate();
}

}  // namespace tidepool
