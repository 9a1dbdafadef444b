// SPDX-License-Identifier: Apache-2.0
// Walks through the steps of each round together with the operations that they became.
#include "lib/training/execute/queue_plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "lib/training/execute/data_instances.h"
#include "lib/training/schedule/steps/rounds.h"

namespace tidepool::execute {
namespace {

using OperationKind = ProgramOperation::Kind;
using QueuedKind = QueuedOperation::Kind;

class PlanBuilder {
 public:
  PlanBuilder(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Program& program,
              const HostCopies& copies, const ProgramPlaces& places, bool fills)
      : graphs_(graphs),
        schedule_(schedule),
        program_(program),
        copies_(copies),
        places_(places),
        has_fills_(fills),
        instances_(graphs.front(), schedule.devices, copies),
        is_compressed_(copies.count()),
        queued_(program.operations.size()),
        tails_(program.streams.size(), EventPlan::kNone) {}

  QueuePlan Build() {
    for (const ScheduleRound& round : schedule::RoundsOf(schedule_)) {
      graph_ = schedule::GraphOf(graphs_, round);
      graph_number_ = static_cast<std::size_t>(graph_ - graphs_.data());
      for (std::int64_t time = 0; time < round.times; ++time, ++repetition_) {
        instances_.StartRound();
        for (std::size_t i = 0; i < round.steps; ++i) AddStep(round.first_step + i);
      }
    }
    AddEnd();
    AddEvents();
    return std::move(plan_);
  }

 private:
  void AddStep(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    switch (step.kind) {
      case StepKind::kAllocate:
        instances_.Allocate(step.device, step.index);
        break;
      case StepKind::kFree:
        instances_.Free(step.device, step.index);
        break;
      case StepKind::kRun:
      case StepKind::kOffload:
      case StepKind::kPrefetch:
      case StepKind::kReceive:
      case StepKind::kAdd:
        AddOperation(step);
        break;
      case StepKind::kDrop:
      case StepKind::kSynchronize:
        break;
    }
  }

  void AddOperation(const ScheduleStep& step) {
    const ProgramOperation& operation = program_.operations[next_];
    for (std::uint32_t i = 0; i < operation.waits; ++i) {
      Await(queued_[program_.waits[operation.first_wait + i].operation]);
    }
    QueuedOperation queued = {
        .stream = operation.stream, .step = operation.step, .repetition = operation.repetition};
    if (operation.kind == OperationKind::kTask) {
      AddTask(step, operation, queued);
    } else if (operation.kind == OperationKind::kReceive || operation.kind == OperationKind::kAdd) {
      AddExchange(step, operation, queued);
    } else {
      AddCopy(step, operation, queued);
    }
    const std::uint32_t number = Add(queued);
    for (const std::size_t instance : touched_) {
      instances_.UsesOf(instance).NoteUser(queued.stream, number);
    }
    touched_.clear();
    queued_[next_++] = number;
  }

  // Copies. ---------------------------------------------------------------------------------------

  void AddCopy(const ScheduleStep& step, const ProgramOperation& operation,
               QueuedOperation& queued) {
    const std::size_t copy = copies_.Of(step.device, step.index);
    const std::size_t on_device = instances_.OnDevice(step.device, step.index);
    const std::size_t on_host = instances_.OnHost(copy);
    std::byte* const device =
        places_.devices[step.device] + program_.offsets[operation.first_offset];
    std::byte* const host_begin = HostAddress(copy);
    std::byte* const host = host_begin == nullptr ? nullptr : host_begin + operation.begin;
    const bool is_out = operation.kind == OperationKind::kOffload;
    queued.kind = QueuedKind::kCopy;
    queued.index = static_cast<std::uint32_t>(copy);
    queued.direction = is_out ? CopyDirection::kFromDevice : CopyDirection::kToDevice;
    queued.to = is_out ? host : device;
    queued.from = is_out ? device : host;
    queued.bytes = operation.end - operation.begin;
    if (is_out) is_compressed_[copy] = step.density >= 0;
    queued.is_compressed = is_compressed_[copy];
    Touch(on_device, device - operation.begin, queued);
    Touch(on_host, host_begin, queued);
    instances_.SetExists(is_out ? on_host : on_device);
  }

  void AddExchange(const ScheduleStep& step, const ProgramOperation& operation,
                   QueuedOperation& queued) {
    const std::int64_t* const offset = &program_.offsets[operation.first_offset];
    std::byte* const own = places_.devices[step.device] + offset[0];
    std::byte* const other = places_.devices[step.source] + offset[1];
    const bool adds = operation.kind == OperationKind::kAdd;
    queued.kind = adds ? QueuedKind::kAdd : QueuedKind::kCopy;
    queued.direction = CopyDirection::kFromPeer;
    queued.to = adds ? places_.devices[step.device] + offset[2] : own;
    queued.from = other;
    queued.sum = adds ? own : nullptr;
    queued.index = static_cast<std::uint32_t>(step.index);
    queued.bytes = operation.end - operation.begin;
    Touch(instances_.OnDevice(step.device, step.index), own - operation.begin, queued);
    Touch(instances_.OnDevice(step.source, step.index), other - operation.begin, queued);
  }

  std::byte* HostAddress(std::size_t copy) const {
    const std::int64_t offset = copies_.OffsetOf(copy);
    return offset < 0 ? nullptr : places_.host + offset;
  }

  // Tasks. ----------------------------------------------------------------------------------------

  void AddTask(const ScheduleStep& step, const ProgramOperation& operation,
               QueuedOperation& queued) {
    TaskLaunch launch = {.task = step.index,
                         .algorithm = step.algorithm,
                         .stream = places_.streams[operation.stream],
                         .device = step.device,
                         .graph = graph_number_,
                         .repetition = repetition_};
    const GraphTask& task = graph_->tasks[step.index];
    if (step.device == kHostDevice) {
      AddHostUses(task, launch, queued);
    } else {
      AddDeviceUses(step, operation, launch, queued);
    }
    queued.kind = QueuedKind::kTask;
    queued.index = static_cast<std::uint32_t>(plan_.launches.size());
    plan_.launches.push_back(std::move(launch));
  }

  void AddDeviceUses(const ScheduleStep& step, const ProgramOperation& operation,
                     TaskLaunch& launch, const QueuedOperation& queued) {
    const GraphTask& task = graph_->tasks[step.index];
    std::byte* const base = places_.devices[step.device];
    const std::int64_t* offset = &program_.offsets[operation.first_offset];
    const auto add = [&](const std::vector<std::size_t>& uses, std::vector<void*>& addresses) {
      addresses.reserve(uses.size());
      for (const std::size_t data : uses) {
        addresses.push_back(base + *offset++);
        Touch(instances_.OnDevice(step.device, data), addresses.back(), queued);
      }
    };
    add(task.reads, launch.reads);
    add(task.writes, launch.writes);
    add(task.updates, launch.updates);
    if (*offset >= 0) launch.workspace = base + *offset;
    for (const std::size_t data : task.writes) {
      NoteWrite(instances_.OnDevice(step.device, data), data, launch);
    }
  }

  void AddHostUses(const GraphTask& task, TaskLaunch& launch, const QueuedOperation& queued) {
    for (const std::size_t data : task.reads) {
      std::size_t count = 0;
      for (const std::size_t copy : copies_.AllOf(data)) {
        if (!instances_.Exists(instances_.OnHost(copy))) continue;
        AddHostUse(copy, launch.reads, queued);
        ++count;
      }
      launch.read_copies.push_back(count);
    }
    for (const std::size_t data : task.writes) {
      const std::size_t copy = copies_.Of(kHostDevice, data);
      AddHostUse(copy, launch.writes, queued);
      NoteWrite(instances_.OnHost(copy), data, launch);
    }
    for (const std::size_t data : task.updates) {
      AddHostUse(copies_.Of(kHostDevice, data), launch.updates, queued);
    }
  }

  void AddHostUse(std::size_t copy, std::vector<void*>& addresses, const QueuedOperation& queued) {
    addresses.push_back(HostAddress(copy));
    Touch(instances_.OnHost(copy), addresses.back(), queued);
  }

  // Notes that a task writes a datum, and whether it adds to the values of an earlier round.
  void NoteWrite(std::size_t instance, std::size_t data, TaskLaunch& launch) {
    const bool is_gradient = graph_->data[data].kind == DataKind::kWeightGradient;
    const bool was_written = instances_.Write(instance, repetition_);
    launch.adds.push_back(is_gradient && was_written ? 1 : 0);
  }

  // Fills. ----------------------------------------------------------------------------------------

  // Notes that the next operation uses an instance. Fills data at home before its first use, on the
  // same stream. Other streams wait for that fill, and the fill waits for earlier users.
  void Touch(std::size_t instance, void* address, const QueuedOperation& user) {
    if (!has_fills_ || !ExistsBefore(graph_->data[instances_.DataOf(instance)])) return;
    HomeUses& uses = instances_.UsesOf(instance);
    if (uses.awaits_fill) {
      for (const auto& [stream, operation] : uses.users) AwaitOther(operation, user.stream);
      uses = HomeUses();
      uses.fill = AddFill(instance, address, user);
    } else if (uses.fill != HomeUses::kNoFill && !uses.IsUsedBy(user.stream)) {
      AwaitOther(uses.fill, user.stream);
    }
    touched_.push_back(instance);
  }

  std::uint32_t AddFill(std::size_t instance, void* address, const QueuedOperation& user) {
    const std::size_t data = instances_.DataOf(instance);
    QueuedOperation fill = {.kind = QueuedKind::kFill,
                            .stream = user.stream,
                            .step = user.step,
                            .index = static_cast<std::uint32_t>(plan_.fills.size())};
    plan_.fills.push_back({.data = data,
                           .owner = instances_.OwnerOf(instance),
                           .is_on_host = instances_.IsOnHost(instance),
                           .graph = graph_number_,
                           .repetition = repetition_,
                           .address = address,
                           .bytes = graph_->data[data].bytes,
                           .device = DeviceOfStream(program_.streams[user.stream]),
                           .stream = places_.streams[user.stream]});
    return Add(fill);
  }

  // Waits. ----------------------------------------------------------------------------------------

  void Await(std::uint32_t queued) {
    if (std::find(waits_.begin(), waits_.end(), queued) == waits_.end()) waits_.push_back(queued);
  }
  void AwaitOther(std::uint32_t queued, std::uint32_t stream) {
    if (plan_.operations[queued].stream != stream) Await(queued);
  }

  // Adds an operation with the waits since the last one, and returns its number.
  std::uint32_t Add(const QueuedOperation& operation) {
    const auto number = static_cast<std::uint32_t>(plan_.operations.size());
    plan_.operations.push_back(operation);
    waiting_.push_back({DeviceOfStream(program_.streams[operation.stream]), std::move(waits_)});
    waits_.clear();
    tails_[operation.stream] = number;
    return number;
  }

  // Makes the stream of the last operation wait for all others.
  void AddEnd() {
    const std::uint32_t stream = plan_.operations.empty() ? 0 : plan_.operations.back().stream;
    for (const std::uint32_t tail : tails_) {
      if (tail != EventPlan::kNone) AwaitOther(tail, stream);
    }
    Add({.kind = QueuedKind::kEnd,
         .stream = stream,
         .step = static_cast<std::uint32_t>(schedule_.steps.size())});
  }

  void AddEvents() {
    EventPlan events = PlanEvents(waiting_);
    for (std::size_t i = 0; i < plan_.operations.size(); ++i) {
      QueuedOperation& operation = plan_.operations[i];
      operation.event = events.recorded[i];
      operation.first_wait = static_cast<std::uint32_t>(plan_.waits.size());
      operation.waits = static_cast<std::uint32_t>(waiting_[i].waits.size());
      for (const std::uint32_t awaited : waiting_[i].waits) {
        plan_.waits.push_back(events.recorded[awaited]);
      }
    }
    plan_.event_devices = std::move(events.devices);
  }

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const Program& program_;
  const HostCopies& copies_;
  const ProgramPlaces& places_;
  const bool has_fills_;
  DataInstances instances_;
  std::vector<bool> is_compressed_;    // by copy on the host: it was sent by a compressed copy
  std::vector<std::uint32_t> queued_;  // by operation of the program: its number in the plan
  std::vector<std::uint32_t> tails_;   // by stream: the last operation
  std::vector<WaitingOperation> waiting_;
  std::vector<std::uint32_t> waits_;  // of the next operation
  std::vector<std::size_t> touched_;  // instances at home that the next operation uses
  QueuePlan plan_;
  const TaskGraph* graph_ = nullptr;
  std::size_t graph_number_ = 0;
  std::int64_t repetition_ = 0;
  std::size_t next_ = 0;  // operation of the program
};

}  // namespace

std::size_t DeviceOfStream(const ProgramStream& stream) {
  return stream.device == kHostDevice ? 0 : stream.device;
}

QueuePlan MakeQueuePlan(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        const Program& program, const HostCopies& copies,
                        const ProgramPlaces& places, bool fills) {
  return PlanBuilder(graphs, schedule, program, copies, places, fills).Build();
}

}  // namespace tidepool::execute
