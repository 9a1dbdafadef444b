// SPDX-License-Identifier: Apache-2.0
// An iteration is one pass over the plan. The host allocates nothing in it, and waits only for its
// end.
#include "lib/training/execute/fixed_executor.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/training/execute/step_error.h"
#include "lib/training/simulate/program_stalls.h"

namespace tidepool::execute {
namespace {

TimelineEvent::Kind EventKindOf(const QueuedOperation& operation) {
  if (operation.kind == QueuedOperation::Kind::kTask) return TimelineEvent::Kind::kTask;
  if (operation.kind == QueuedOperation::Kind::kAdd) return TimelineEvent::Kind::kAdd;
  if (operation.direction == CopyDirection::kFromPeer) return TimelineEvent::Kind::kReceive;
  return operation.direction == CopyDirection::kFromDevice ? TimelineEvent::Kind::kOffload
                                                           : TimelineEvent::Kind::kPrefetch;
}

bool IsEvent(const QueuedOperation& operation) {
  return operation.kind == QueuedOperation::Kind::kTask ||
         operation.kind == QueuedOperation::Kind::kCopy ||
         operation.kind == QueuedOperation::Kind::kAdd;
}

}  // namespace

FixedExecutor::FixedExecutor(absl::Span<Device* const> devices, absl::Span<const TaskGraph> graphs,
                             const Schedule& schedule, Program program, LaunchTask launch,
                             FillHome fill, const ExecutorOptions& options)
    : graphs_(graphs.begin(), graphs.end()),
      schedule_(schedule),
      program_(std::move(program)),
      launch_(std::move(launch)),
      fill_(std::move(fill)),
      copy_compressed_(options.copy_compressed),
      add_received_(options.add_received),
      measures_(options.measures),
      clock_(ClockOf(options)),
      on_step_(options.on_step),
      resources_(devices) {}

FixedExecutor::~FixedExecutor() { Abandon(); }

absl::Status FixedExecutor::Start() {
  const HostCopies copies(graphs_, schedule_, program_);
  absl::Status status = resources_.TakeMemory(program_, schedule_.alignment, copies.bytes());
  if (status.ok()) status = resources_.CreateStreams(program_);
  if (!status.ok()) return status;
  plan_ = MakeQueuePlan(
      graphs_, schedule_, program_, copies,
      {.devices = resources_.memory(), .host = resources_.host(), .streams = resources_.streams()},
      fill_ != nullptr);
  status = resources_.CreateEvents(plan_.event_devices);
  return status.ok() && measures_ ? CreateStamps() : status;
}

absl::Status FixedExecutor::CreateStamps() {
  stamps_ = std::make_unique<Stamps>(plan_.operations.size(), clock_);
  absl::Status status;
  for (std::size_t i = 0; i < plan_.operations.size() && status.ok(); ++i) {
    const QueuedOperation& operation = plan_.operations[i];
    if (IsEvent(operation)) {
      status = stamps_->Watch(i, resources_.device_of(operation.stream)).status();
    }
  }
  return status.ok() ? BeginStamps() : status;  // which creates the events of devices
}

absl::Status FixedExecutor::Reschedule(const Schedule& /*schedule*/) {
  return absl::FailedPreconditionError(
      "the executor has fixed addresses, expected one for schedules of a pool");
}

absl::StatusOr<Timeline> FixedExecutor::Run() {
  absl::StatusOr<Timeline> timeline = Iterate();
  if (!timeline.ok()) Abandon();
  is_fresh_ = !timeline.ok();
  return timeline;
}

absl::StatusOr<Timeline> FixedExecutor::Iterate() {
  begin_ = clock_();
  if (measures_) {
    absl::Status begun = BeginStamps();
    if (!begun.ok()) return AtStep(graphs_.front(), schedule_, 0, begun);
  }
  std::size_t at = 0;
  absl::Status status;
  for (; status.ok() && at < plan_.operations.size(); ++at) status = Perform(at);
  const QueuedOperation& last = plan_.operations[at - 1];
  if (status.ok()) {
    status = resources_.device_of(last.stream).SynchronizeStream(resources_.streams()[last.stream]);
  }
  if (!status.ok()) return AtStep(graphs_.front(), schedule_, last.step, status);
  return Measure();
}

absl::Status FixedExecutor::BeginStamps() {
  stamps_->Begin();
  absl::Status status;
  for (std::size_t i = 0; i < resources_.streams().size() && status.ok(); ++i) {
    const Stream stream = resources_.streams()[i];
    if (stream != Stream()) status = stamps_->Begin(resources_.device_of(i), stream);
  }
  return status;
}

absl::Status FixedExecutor::Perform(std::size_t at) {
  const QueuedOperation& operation = plan_.operations[at];
  if (on_step_ != nullptr && IsEvent(operation)) on_step_(operation.step);
  Device& device = resources_.device_of(operation.stream);
  const Stream stream = resources_.streams()[operation.stream];
  for (std::uint32_t i = 0; i < operation.waits; ++i) {
    const Event event = resources_.event(plan_.waits[operation.first_wait + i]);
    if (absl::Status status = device.WaitEvent(stream, event); !status.ok()) return status;
  }
  absl::Status status = measures_ ? Measured(at, operation) : Work(operation);
  if (!status.ok() || operation.event == EventPlan::kNone) return status;
  return device.RecordEvent(resources_.event(operation.event), stream);
}

absl::Status FixedExecutor::Work(const QueuedOperation& operation) {
  switch (operation.kind) {
    case QueuedOperation::Kind::kFill:
      return Fill(plan_.fills[operation.index]);
    case QueuedOperation::Kind::kTask:
      return launch_(plan_.launches[operation.index]);
    case QueuedOperation::Kind::kCopy:
      return Copy(operation);
    case QueuedOperation::Kind::kAdd:
      return Add(operation);
    case QueuedOperation::Kind::kEnd:
      break;
  }
  return absl::OkStatus();
}

absl::Status FixedExecutor::Copy(const QueuedOperation& operation) {
  const Stream stream = resources_.streams()[operation.stream];
  if (operation.is_compressed && copy_compressed_ != nullptr) {
    return copy_compressed_({.device = DeviceOfStream(program_.streams[operation.stream]),
                             .to = operation.to,
                             .from = operation.from,
                             .bytes = operation.bytes,
                             .direction = operation.direction,
                             .stream = stream});
  }
  return resources_.device_of(operation.stream)
      .Copy(operation.to, operation.from, operation.bytes, operation.direction, stream);
}

absl::Status FixedExecutor::Add(const QueuedOperation& operation) {
  if (absl::Status status = Copy(operation); !status.ok()) return status;
  return add_received_({.data = operation.index,
                        .device = DeviceOfStream(program_.streams[operation.stream]),
                        .sum = operation.sum,
                        .received = operation.to,
                        .bytes = operation.bytes,
                        .stream = resources_.streams()[operation.stream]});
}

// Fills inputs in every iteration, and the rest before the first.
absl::Status FixedExecutor::Fill(const HomeFill& fill) {
  const bool is_input = graphs_.front().data[fill.data].kind == DataKind::kInput;
  return is_input || is_fresh_ ? fill_(fill) : absl::OkStatus();
}

absl::Status FixedExecutor::Measured(std::size_t at, const QueuedOperation& operation) {
  if (!IsEvent(operation)) return Work(operation);
  Device& device = resources_.device_of(operation.stream);
  const Stream stream = resources_.streams()[operation.stream];
  const absl::StatusOr<CopyWatch> watch = stamps_->Watch(at, device);
  if (!watch.ok()) return watch.status();
  absl::Status status = device.RecordEvent(watch->begins, stream);
  if (status.ok()) status = Work(operation);
  return status.ok() ? device.RecordEvent(watch->ends, stream) : status;
}

// Waits for all queued work.
void FixedExecutor::Abandon() {
  constexpr int kTries = 2;  // a device that fails once may work the next time
  for (std::size_t i = 0; i < resources_.streams().size(); ++i) {
    const Stream stream = resources_.streams()[i];
    bool has_finished = stream == Stream();
    for (int tries = 0; tries < kTries && !has_finished; ++tries) {
      has_finished = resources_.device_of(i).SynchronizeStream(stream).ok();
    }
  }
}

absl::StatusOr<Timeline> FixedExecutor::Measure() const {
  Timeline timeline;
  timeline.seconds = clock_() - begin_;
  timeline.peak_device_bytes = timeline.pool_bytes = program_.pool_bytes.front();
  for (std::size_t i = 1; i < program_.pool_bytes.size(); ++i) {
    DeviceTimeline& device = timeline.further_devices.emplace_back();
    device.peak_bytes = device.pool_bytes = program_.pool_bytes[i];
  }
  timeline.peak_host_bytes = program_.host_bytes;
  for (const QueuedOperation& operation : plan_.operations) {
    if (operation.kind == QueuedOperation::Kind::kTask || !IsEvent(operation)) continue;
    const bool is_out = operation.direction == CopyDirection::kFromDevice;
    (is_out                                            ? timeline.bytes_out
     : operation.direction == CopyDirection::kFromPeer ? timeline.bytes_received
                                                       : timeline.bytes_in) += operation.bytes;
  }
  if (!measures_) return timeline;
  absl::Status status = ReadStamps(timeline);
  if (!status.ok()) return status;
  return timeline;
}

// Events of the plan are the operations of the program, in their order.
absl::Status FixedExecutor::ReadStamps(Timeline& timeline) const {
  std::vector<OperationTimes> times;
  times.reserve(program_.operations.size());
  for (std::size_t i = 0; i < plan_.operations.size(); ++i) {
    const QueuedOperation& operation = plan_.operations[i];
    if (!IsEvent(operation)) continue;
    const absl::StatusOr<Stamps::Times> of_operation = stamps_->Of(i);
    if (!of_operation.ok()) {
      return AtStep(graphs_.front(), schedule_, operation.step, of_operation.status());
    }
    times.push_back({of_operation->start, of_operation->end});
    const ProgramStream& stream = program_.streams[operation.stream];
    timeline.events.push_back({EventKindOf(operation), schedule_.steps[operation.step].index,
                               operation.step, times.back().start, times.back().end, stream.device,
                               stream.number, operation.repetition});
    if (stream.kind == ProgramStream::Kind::kCompute) {
      timeline.compute_seconds += of_operation->end - of_operation->start;
    }
  }
  timeline.stalls = simulate::ProgramStalls(graphs_.front(), program_, times);
  std::sort(timeline.events.begin(), timeline.events.end(),
            [](const TimelineEvent& left, const TimelineEvent& right) {
              return std::tie(left.start, left.step) < std::tie(right.start, right.step);
            });
  return absl::OkStatus();
}

}  // namespace tidepool::execute
