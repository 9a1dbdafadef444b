// SPDX-License-Identifier: Apache-2.0
// An iteration is one pass over the plan. The host allocates nothing in it, and waits only for its
// end. Between iterations it maps the pages of weights that moved.
#include "lib/training/execute/program_executor.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/copies/pipeline/counted_density.h"
#include "lib/training/execute/lower_checked.h"
#include "lib/training/schedule/steps/step_text.h"
#include "lib/training/simulate/program_stalls.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {
namespace {

// Returns OK for OK. Otherwise the error with the words of the step, and the algorithm of a task.
// `at` may be the number of steps, for errors after the last one.
absl::Status AtStep(const TaskGraph& graph, const Schedule& schedule, std::size_t at,
                    const absl::Status& error) {
  if (error.ok()) return error;
  if (at >= schedule.steps.size()) {
    return absl::Status(error.code(), absl::StrCat("after the last step: ", error.message()));
  }
  const ScheduleStep& step = schedule.steps[at];
  std::string text = schedule::StepText(graph, schedule, at);
  if (step.kind == StepKind::kRun) {
    const TaskAlgorithm& algorithm = graph.tasks[step.index].algorithms[step.algorithm];
    absl::StrAppend(&text, " by '", absl::CHexEscape(algorithm.name), "'");
  }
  return absl::Status(error.code(), absl::StrCat(text, ": ", error.message()));
}

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

ProgramExecutor::ProgramExecutor(absl::Span<Device* const> devices,
                                 absl::Span<const TaskGraph> graphs, const Machine& machine,
                                 LaunchTask launch, FillHome fill, const ExecutorOptions& options)
    : graphs_(graphs.begin(), graphs.end()),
      machine_(machine),
      launch_(std::move(launch)),
      fill_(std::move(fill)),
      options_(options),
      clock_(ClockOf(options)),
      resources_(devices),
      pipeline_copies_(*devices.front(), options.pipeline) {}

ProgramExecutor::~ProgramExecutor() { Abandon(); }

absl::Status ProgramExecutor::Start(const Schedule& schedule, Program program) {
  absl::Status status = resources_.TakeMemory(program, schedule.alignment);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PreparedSchedule>> prepared =
      Prepare(schedule, std::move(program));
  if (prepared.ok()) prepared_ = *std::move(prepared);
  return prepared.status();
}

absl::Status ProgramExecutor::Reschedule(const Schedule& schedule) {
  absl::StatusOr<Program> program = LowerChecked(graphs_, schedule, machine_, options_);
  if (!program.ok()) return program.status();
  absl::Status status = resources_.CheckMemory(*program, schedule.alignment);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PreparedSchedule>> prepared =
      Prepare(schedule, *std::move(program));
  if (prepared.ok()) prepared_ = *std::move(prepared);
  return prepared.status();
}

absl::StatusOr<std::unique_ptr<PreparedSchedule>> ProgramExecutor::Prepare(const Schedule& schedule,
                                                                           Program program) {
  auto prepared = std::make_unique<PreparedSchedule>(graphs_, schedule, std::move(program),
                                                     options_.pipeline != nullptr);
  absl::Status status;
  if (prepared_ != nullptr) status = CheckHomes(graphs_.front(), *prepared_, *prepared);
  if (status.ok()) status = TakeHostArea(*prepared);
  if (status.ok()) status = resources_.CreateStreams(prepared->program);
  if (!status.ok()) return status;
  prepared->plan = MakeQueuePlan(graphs_, prepared->schedule, prepared->program, prepared->copies,
                                 {.devices = resources_.memory(),
                                  .host = prepared->host->memory(),
                                  .streams = resources_.streams()},
                                 fill_ != nullptr);
  status = CreateEvents(*prepared);
  if (status.ok() && options_.measures) status = CreateStamps(*prepared);
  if (!status.ok()) return status;
  return prepared;
}

// Keeps the area of the schedule before where it is large enough. Data at home moves to a new one.
absl::Status ProgramExecutor::TakeHostArea(PreparedSchedule& prepared) {
  const bool is_first = prepared_ == nullptr;
  if (!is_first && prepared_->host->bytes() >= prepared.copies.bytes()) {
    prepared.host = prepared_->host;
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<HostArea>> area =
      HostArea::Take(*resources_.devices().front(), prepared.copies.bytes());
  if (!area.ok()) return area.status();
  prepared.host = *std::move(area);
  const auto home_bytes = static_cast<std::size_t>(prepared.copies.home_bytes());
  if (!is_first && home_bytes > 0) {
    std::memcpy(prepared.host->memory(), prepared_->host->memory(), home_bytes);
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::CreateEvents(PreparedSchedule& prepared) {
  for (const std::size_t device : prepared.plan.event_devices) {
    absl::StatusOr<device::OwnedEvent> event =
        device::OwnedEvent::Create(*resources_.devices()[device]);
    if (!event.ok()) return event.status();
    prepared.events.push_back(*std::move(event));
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::CreateStamps(PreparedSchedule& prepared) {
  const std::vector<QueuedOperation>& operations = prepared.plan.operations;
  prepared.stamps = std::make_unique<Stamps>(operations.size());
  absl::Status status;
  for (std::size_t i = 0; i < operations.size() && status.ok(); ++i) {
    if (!IsEvent(operations[i])) continue;
    status = prepared.stamps->Of(i, resources_.device_of(operations[i].stream)).status();
  }
  return status.ok() ? BeginStamps(*prepared.stamps) : status;  // creates the events of devices
}

absl::StatusOr<Timeline> ProgramExecutor::Run() {
  const bool probes = options_.probe_every > 0 && iteration_++ % options_.probe_every == 0;
  absl::StatusOr<Timeline> timeline = Iterate();
  if (!timeline.ok()) Abandon();
  is_fresh_ = !timeline.ok();
  if (!timeline.ok() || !probes) return timeline;
  if (absl::Status status = Probe(); !status.ok()) return status;
  return timeline;
}

absl::StatusOr<Timeline> ProgramExecutor::Iterate() {
  begin_ = clock_();
  pipeline_copies_.Begin(prepared_->copies.count());
  absl::Status begun = resources_.BeginIteration(!is_fresh_);
  if (begun.ok() && options_.measures) begun = BeginStamps(*prepared_->stamps);
  if (!begun.ok()) return AtStep(graphs_.front(), prepared_->schedule, 0, begun);
  std::size_t at = 0;
  absl::Status status;
  for (; status.ok() && at < prepared_->plan.operations.size(); ++at) status = Perform(at);
  const QueuedOperation& last = prepared_->plan.operations[at - 1];
  if (status.ok()) {
    status = resources_.device_of(last.stream).SynchronizeStream(resources_.streams()[last.stream]);
  }
  // The first error is that of a copy, from which a later step may have suffered.
  if (const auto failure = pipeline_copies_.Wait(); failure.has_value()) {
    return AtStep(graphs_.front(), prepared_->schedule, failure->step, failure->status);
  }
  if (!status.ok()) return AtStep(graphs_.front(), prepared_->schedule, last.step, status);
  return Measure();
}

absl::Status ProgramExecutor::BeginStamps(Stamps& stamps) {
  stamps.Begin();
  absl::Status status;
  for (std::size_t i = 0; i < resources_.streams().size() && status.ok(); ++i) {
    const Stream stream = resources_.streams()[i];
    if (stream != Stream()) status = stamps.Begin(resources_.device_of(i), stream);
  }
  return status;
}

absl::Status ProgramExecutor::Perform(std::size_t at) {
  const QueuedOperation& operation = prepared_->plan.operations[at];
  if (options_.on_step != nullptr && IsEvent(operation)) options_.on_step(operation.step);
  Device& device = resources_.device_of(operation.stream);
  const Stream stream = resources_.streams()[operation.stream];
  for (std::uint32_t i = 0; i < operation.waits; ++i) {
    const Event event = prepared_->events[prepared_->plan.waits[operation.first_wait + i]].get();
    if (absl::Status status = device.WaitEvent(stream, event); !status.ok()) return status;
  }
  absl::Status status = options_.measures ? Measured(at, operation) : Work(operation);
  if (!status.ok() || operation.event == EventPlan::kNone) return status;
  return device.RecordEvent(prepared_->events[operation.event].get(), stream);
}

absl::Status ProgramExecutor::Work(const QueuedOperation& operation) {
  switch (operation.kind) {
    case QueuedOperation::Kind::kFill:
      return Fill(prepared_->plan.fills[operation.index]);
    case QueuedOperation::Kind::kTask:
      return launch_(prepared_->plan.launches[operation.index]);
    case QueuedOperation::Kind::kCopy:
      return Copy(operation);
    case QueuedOperation::Kind::kAdd:
      return Add(operation);
    case QueuedOperation::Kind::kEnd:
      break;
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Copy(const QueuedOperation& operation) {
  const Stream stream = resources_.streams()[operation.stream];
  if (operation.is_compressed && options_.pipeline != nullptr) return CopyByPipeline(operation);
  if (operation.is_compressed && options_.copy_compressed != nullptr) {
    return options_.copy_compressed(
        {.device = DeviceOfStream(prepared_->program.streams[operation.stream]),
         .to = operation.to,
         .from = operation.from,
         .bytes = operation.bytes,
         .direction = operation.direction,
         .stream = stream});
  }
  return resources_.device_of(operation.stream)
      .Copy(operation.to, operation.from, operation.bytes, operation.direction, stream);
}

absl::Status ProgramExecutor::CopyByPipeline(const QueuedOperation& operation) {
  const Stream stream = resources_.streams()[operation.stream];
  if (operation.direction == CopyDirection::kToDevice) {
    return pipeline_copies_.Receive(operation.index, operation.to, stream, operation.step);
  }
  return pipeline_copies_.Send(operation.index, operation.from, operation.bytes, stream,
                               operation.step);
}

absl::Status ProgramExecutor::Add(const QueuedOperation& operation) {
  if (absl::Status status = Copy(operation); !status.ok()) return status;
  return options_.add_received(
      {.data = operation.index,
       .device = DeviceOfStream(prepared_->program.streams[operation.stream]),
       .sum = operation.sum,
       .received = operation.to,
       .bytes = operation.bytes,
       .stream = resources_.streams()[operation.stream]});
}

// Fills inputs in every iteration, and the rest before the first.
absl::Status ProgramExecutor::Fill(const HomeFill& fill) {
  const bool is_input = graphs_.front().data[fill.data].kind == DataKind::kInput;
  return is_input || is_fresh_ ? fill_(fill) : absl::OkStatus();
}

absl::Status ProgramExecutor::Measured(std::size_t at, const QueuedOperation& operation) {
  if (!IsEvent(operation)) return Work(operation);
  Device& device = resources_.device_of(operation.stream);
  const Stream stream = resources_.streams()[operation.stream];
  const absl::StatusOr<Stamps::Marks> marks = prepared_->stamps->Of(at, device);
  if (!marks.ok()) return marks.status();
  absl::Status status = device.RecordEvent(marks->begins, stream);
  if (status.ok()) status = Work(operation);
  return status.ok() ? device.RecordEvent(marks->ends, stream) : status;
}

// Tells the density of data that left and came back, once each. Its copies on the host are as they
// were sent, because each has a place of its own.
absl::Status ProgramExecutor::Probe() const {
  std::vector<bool> is_sent(prepared_->copies.count());
  for (const QueuedOperation& operation : prepared_->plan.operations) {
    if (operation.kind != QueuedOperation::Kind::kCopy) continue;
    if (operation.direction == CopyDirection::kFromDevice) is_sent[operation.index] = true;
    if (operation.direction != CopyDirection::kToDevice || !is_sent[operation.index]) continue;
    is_sent[operation.index] = false;
    const absl::StatusOr<DensityEstimate> density = DensityOf(operation);
    if (!density.ok()) return density.status();
    options_.on_density(prepared_->schedule.steps[operation.step].index, *density);
  }
  return absl::OkStatus();
}

absl::StatusOr<DensityEstimate> ProgramExecutor::DensityOf(const QueuedOperation& copy) const {
  if (copy.is_compressed && options_.pipeline != nullptr) {
    return pipeline::CountedDensity(*pipeline_copies_.Stored(copy.index));
  }
  return ProbeDensity(absl::MakeConstSpan(static_cast<const std::byte*>(copy.from),
                                          static_cast<std::size_t>(copy.bytes)),
                      {});
}

// Waits for all queued work.
void ProgramExecutor::Abandon() {
  constexpr int kTries = 2;  // a device that fails once may work the next time
  for (std::size_t i = 0; i < resources_.streams().size(); ++i) {
    const Stream stream = resources_.streams()[i];
    bool has_finished = stream == Stream();
    for (int tries = 0; tries < kTries && !has_finished; ++tries) {
      has_finished = resources_.device_of(i).SynchronizeStream(stream).ok();
    }
  }
  pipeline_copies_.Wait();
}

absl::StatusOr<Timeline> ProgramExecutor::Measure() const {
  Timeline timeline;
  timeline.seconds = clock_() - begin_;
  const std::vector<std::int64_t>& pool_bytes = prepared_->program.pool_bytes;
  timeline.peak_device_bytes = timeline.pool_bytes = pool_bytes.front();
  for (std::size_t i = 1; i < pool_bytes.size(); ++i) {
    DeviceTimeline& device = timeline.further_devices.emplace_back();
    device.peak_bytes = device.pool_bytes = pool_bytes[i];
  }
  timeline.peak_host_bytes = options_.pipeline == nullptr
                                 ? prepared_->program.host_bytes
                                 : prepared_->copies.bytes() + pipeline_copies_.held_bytes();
  for (const QueuedOperation& operation : prepared_->plan.operations) {
    if (operation.kind == QueuedOperation::Kind::kTask || !IsEvent(operation)) continue;
    const bool is_out = operation.direction == CopyDirection::kFromDevice;
    (is_out                                            ? timeline.bytes_out
     : operation.direction == CopyDirection::kFromPeer ? timeline.bytes_received
                                                       : timeline.bytes_in) += operation.bytes;
  }
  if (!options_.measures) return timeline;
  absl::Status status = ReadStamps(timeline);
  if (!status.ok()) return status;
  return timeline;
}

// Events of the plan are the operations of the program, in their order.
absl::Status ProgramExecutor::ReadStamps(Timeline& timeline) const {
  std::vector<OperationTimes> times;
  times.reserve(prepared_->program.operations.size());
  for (std::size_t i = 0; i < prepared_->plan.operations.size(); ++i) {
    const QueuedOperation& operation = prepared_->plan.operations[i];
    if (!IsEvent(operation)) continue;
    const absl::StatusOr<Stamps::Times> of_operation = prepared_->stamps->Read(i);
    if (!of_operation.ok()) {
      return AtStep(graphs_.front(), prepared_->schedule, operation.step, of_operation.status());
    }
    times.push_back({of_operation->start, of_operation->end});
    const ProgramStream& stream = prepared_->program.streams[operation.stream];
    timeline.events.push_back(
        {EventKindOf(operation), prepared_->schedule.steps[operation.step].index, operation.step,
         times.back().start, times.back().end, stream.device, stream.number, operation.repetition});
    if (stream.kind == ProgramStream::Kind::kCompute) {
      timeline.compute_seconds += of_operation->end - of_operation->start;
    }
  }
  timeline.stalls = simulate::ProgramStalls(graphs_.front(), prepared_->program, times);
  std::sort(timeline.events.begin(), timeline.events.end(),
            [](const TimelineEvent& left, const TimelineEvent& right) {
              return std::tie(left.start, left.step) < std::tie(right.start, right.step);
            });
  return absl::OkStatus();
}

}  // namespace tidepool::execute
