// SPDX-License-Identifier: Apache-2.0
// The executor performs the steps of a schedule one after another; each queues work on streams.
//
// A copy out begins after the last task that wrote the data. These tasks are known before the
// schedule runs, so events are recorded only after them.
#include "tidepool/schedule/executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/execute/measured_stalls.h"
#include "lib/execute/stamps.h"
#include "lib/schedule/check_pool.h"

namespace tidepool {
namespace execute {
namespace {

constexpr std::size_t kNoEvent = std::numeric_limits<std::size_t>::max();

double MachineSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Numbers of events by step: the event that is recorded after the step, and the event that a
// kOffload waits for.
struct StepEvents {
  std::vector<std::size_t> recorded;
  std::vector<std::size_t> awaited;
  std::size_t count = 0;
};

StepEvents PlaceEvents(const TaskGraph& graph, const Schedule& schedule) {
  StepEvents events;
  events.recorded.assign(schedule.steps.size(), kNoEvent);
  events.awaited.assign(schedule.steps.size(), kNoEvent);
  std::vector<std::size_t> writer(graph.data.size(),
                                  kNoEvent);  // the last step that wrote the data
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    if (step.kind == StepKind::kAllocate) writer[step.index] = i;
    if (step.kind == StepKind::kRun) {
      const GraphTask& task = graph.tasks[step.index];
      for (const std::size_t data : task.writes) writer[data] = i;
      for (const std::size_t data : task.updates) writer[data] = i;
    }
    if (step.kind != StepKind::kOffload) continue;
    std::size_t& event = events.recorded[writer[step.index]];
    if (event == kNoEvent) event = events.count++;
    events.awaited[i] = event;
  }
  return events;
}

class ExecutorImpl final : public Executor {
 public:
  ExecutorImpl(Device& device, Offloader& offloader, const TaskGraph& graph,
               const Schedule& schedule, LaunchTask launch, FillData fill,
               const ExecutorOptions& options)
      : device_(device),
        offloader_(offloader),
        graph_(graph),
        schedule_(schedule),
        step_events_(PlaceEvents(graph_, schedule_)),
        launch_(std::move(launch)),
        fill_(std::move(fill)),
        measures_(options.measures),
        clock_(options.clock == nullptr ? MachineSeconds : options.clock),
        on_step_(options.on_step),
        data_(graph_.data.size()) {}
  ~ExecutorImpl() override;

  absl::Status Start();
  absl::StatusOr<Timeline> Run() override;

 private:
  struct Datum {
    BufferId buffer;          // BufferId() when the data has no memory
    bool is_leaving = false;  // it was offloaded, and not waited for
  };

  absl::Status PerformStep(std::size_t at);
  absl::Status Allocate(const ScheduleStep& step);
  absl::Status Free(std::size_t data);
  absl::Status RunTask(std::size_t at);
  absl::Status Launch(std::size_t at, BufferId workspace);
  absl::Status AddAddresses(const std::vector<std::size_t>& uses, std::vector<void*>& addresses);
  absl::Status Offload(std::size_t at);
  absl::Status Await(std::size_t data);
  absl::Status CountStay(const absl::Status& left);
  absl::Status Prefetch(std::size_t at);
  absl::Status Synchronize();
  absl::Status FreeAllButWeights();

  void Abandon();
  absl::Status AtStep(std::size_t at, const absl::Status& error) const;
  CopyWatch WatchOf(std::size_t at) const;
  void NotePeaks();
  void ReadStamps();

  Device& device_;
  Offloader& offloader_;
  const TaskGraph graph_;
  const Schedule schedule_;
  const StepEvents step_events_;
  const LaunchTask launch_;
  const FillData fill_;
  const bool measures_;
  const std::function<double()> clock_;
  const std::function<void(std::size_t)> on_step_;
  Stream compute_;
  std::vector<Event> events_;
  std::vector<Datum> data_;
  // Data in the order of its offloads; may include data that stayed.
  std::deque<std::size_t> leaving_;
  // The current iteration.
  double begin_ = 0;
  Timeline timeline_;
  std::shared_ptr<Stamps> stamps_;
};

// Iterations. -------------------------------------------------------------------------------------

absl::Status ExecutorImpl::Start() {
  const absl::StatusOr<Stream> stream = device_.CreateStream();
  if (!stream.ok()) return stream.status();
  compute_ = *stream;
  for (std::size_t i = 0; i < step_events_.count; ++i) {
    const absl::StatusOr<Event> event = device_.CreateEvent();
    if (!event.ok()) return event.status();
    events_.push_back(*event);
  }
  return absl::OkStatus();
}

ExecutorImpl::~ExecutorImpl() {
  Abandon();
  // Objects that the device refuses to destroy are lost: no caller could act on the error.
  for (const Event event : events_) device_.DestroyEvent(event).IgnoreError();
  if (compute_ != Stream()) device_.DestroyStream(compute_).IgnoreError();
}

absl::StatusOr<Timeline> ExecutorImpl::Run() {
  timeline_ = {};
  begin_ = clock_();
  if (measures_) stamps_ = std::make_shared<Stamps>(schedule_.steps.size(), clock_);
  const OffloaderStats before = offloader_.Stats();
  absl::Status status;
  std::size_t at = 0;
  for (; status.ok() && at < schedule_.steps.size(); ++at) {
    if (on_step_ != nullptr) on_step_(at);
    status = AtStep(at, PerformStep(at));
  }
  if (status.ok()) status = AtStep(at, Synchronize());
  if (status.ok()) status = AtStep(at, FreeAllButWeights());
  if (!status.ok()) {
    Abandon();
    return status;
  }
  timeline_.seconds = clock_() - begin_;
  const OffloaderStats after = offloader_.Stats();
  timeline_.bytes_out = after.bytes_out - before.bytes_out;
  timeline_.bytes_in = after.bytes_in - before.bytes_in;
  if (measures_) ReadStamps();
  return std::move(timeline_);
}

// Waits for all queued work after an error, and frees all data.
void ExecutorImpl::Abandon() {
  constexpr int kTries = 2;  // a device that fails once may work the next time
  bool has_finished = compute_ == Stream();
  for (int i = 0; i < kTries && !has_finished; ++i) {
    has_finished = device_.SynchronizeStream(compute_).ok();
  }
  // The errors belong to buffers that are freed next.
  offloader_.Synchronize().IgnoreError();
  for (Datum& datum : data_) {
    if (datum.buffer != BufferId()) offloader_.Free(datum.buffer).IgnoreError();
    datum = {};
  }
  leaving_.clear();
  // Compressed copies may have held the memory until now.
  offloader_.Synchronize().IgnoreError();
  stamps_ = nullptr;
}

absl::Status ExecutorImpl::AtStep(std::size_t at, const absl::Status& error) const {
  if (error.ok()) return error;
  if (at >= schedule_.steps.size()) {
    return absl::Status(error.code(), absl::StrCat("after the last step: ", error.message()));
  }
  const ScheduleStep& step = schedule_.steps[at];
  std::string name;
  if (step.kind == StepKind::kRun) {
    const GraphTask& task = graph_.tasks[step.index];
    name = absl::StrCat(" task '", absl::CHexEscape(task.name), "' by '",
                        absl::CHexEscape(task.algorithms[step.algorithm].name), "'");
  } else if (step.kind != StepKind::kSynchronize) {
    name = absl::StrCat(" data '", absl::CHexEscape(graph_.data[step.index].name), "'");
  }
  return absl::Status(error.code(),
                      absl::StrCat("step ", at, ", ", std::string(StepKindName(step.kind)), name,
                                   ": ", error.message()));
}

// Steps. ------------------------------------------------------------------------------------------

absl::Status ExecutorImpl::PerformStep(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  absl::Status status;
  switch (step.kind) {
    case StepKind::kAllocate:
      status = Allocate(step);
      break;
    case StepKind::kFree:
      status = Free(step.index);
      break;
    case StepKind::kRun:
      status = RunTask(at);
      break;
    case StepKind::kOffload:
      status = Offload(at);
      break;
    case StepKind::kAwait:
      status = Await(step.index);
      break;
    case StepKind::kPrefetch:
      status = Prefetch(at);
      break;
    case StepKind::kSynchronize:
      status = Synchronize();
      break;
    case StepKind::kDrop:  // not in a pool's schedule
      break;
  }
  const std::size_t event = step_events_.recorded[at];
  if (!status.ok() || event == kNoEvent) return status;
  return device_.RecordEvent(events_[event], compute_);
}

absl::Status ExecutorImpl::Allocate(const ScheduleStep& step) {
  const GraphData& data = graph_.data[step.index];
  Datum& datum = data_[step.index];
  const bool is_allocated = datum.buffer != BufferId();  // a weight, in a previous iteration
  if (is_allocated) return absl::OkStatus();
  const absl::StatusOr<BufferId> buffer =
      offloader_.Allocate(static_cast<std::size_t>(data.bytes), compute_, step.hint, data.name);
  if (!buffer.ok()) return buffer.status();
  datum.buffer = *buffer;
  NotePeaks();
  const bool is_there_before = data.kind == DataKind::kInput || data.kind == DataKind::kWeight;
  if (!is_there_before || fill_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<void*> address = offloader_.Use(*buffer, compute_);
  return address.ok() ? fill_(step.index, *address, compute_) : address.status();
}

absl::Status ExecutorImpl::Free(std::size_t data) {
  Datum& datum = data_[data];
  absl::Status status = offloader_.Free(datum.buffer);
  if (status.ok()) datum = {};
  return status;
}

absl::Status ExecutorImpl::RunTask(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  const GraphTask& task = graph_.tasks[step.index];
  const std::int64_t bytes = task.algorithms[step.algorithm].workspace_bytes;
  if (bytes == 0) return Launch(at, {});
  const absl::StatusOr<BufferId> workspace =
      offloader_.Allocate(static_cast<std::size_t>(bytes), compute_, Hint::kResident, "workspace");
  if (!workspace.ok()) return workspace.status();
  NotePeaks();
  absl::Status status = Launch(at, *workspace);
  status.Update(offloader_.Free(*workspace));
  return status;
}

absl::Status ExecutorImpl::Launch(std::size_t at, BufferId workspace) {
  const ScheduleStep& step = schedule_.steps[at];
  const GraphTask& task = graph_.tasks[step.index];
  TaskLaunch launch = {.task = step.index, .algorithm = step.algorithm, .stream = compute_};
  absl::Status status = AddAddresses(task.reads, launch.reads);
  if (status.ok()) status = AddAddresses(task.writes, launch.writes);
  if (status.ok()) status = AddAddresses(task.updates, launch.updates);
  if (!status.ok()) return status;
  if (workspace != BufferId()) {
    const absl::StatusOr<void*> address = offloader_.Use(workspace, compute_);
    if (!address.ok()) return address.status();
    launch.workspace = *address;
  }
  const CopyWatch watch = WatchOf(at);
  if (measures_) status = device_.CallHost(compute_, watch.begins);
  if (status.ok()) status = launch_(launch);
  if (status.ok() && measures_) status = device_.CallHost(compute_, watch.ends);
  return status;
}

absl::Status ExecutorImpl::AddAddresses(const std::vector<std::size_t>& uses,
                                        std::vector<void*>& addresses) {
  addresses.reserve(uses.size());
  for (const std::size_t data : uses) {
    const absl::StatusOr<void*> address = offloader_.Use(data_[data].buffer, compute_);
    if (!address.ok()) return address.status();
    addresses.push_back(*address);
  }
  return absl::OkStatus();
}

absl::Status ExecutorImpl::Offload(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  Datum& datum = data_[step.index];
  absl::Status status = offloader_.Offload(
      datum.buffer, events_[step_events_.awaited[at]],
      step.density < 0 ? std::nullopt : std::optional(ZeroValueWord::k32Bits), WatchOf(at));
  if (absl::IsResourceExhausted(status)) {
    ++timeline_.stayed;
    return absl::OkStatus();
  }
  if (!status.ok()) return status;
  datum.is_leaving = true;
  leaving_.push_back(step.index);
  return absl::OkStatus();
}

absl::Status ExecutorImpl::Await(std::size_t data) {
  Datum& datum = data_[data];
  if (!datum.is_leaving) return absl::OkStatus();
  datum.is_leaving = false;
  return CountStay(offloader_.Await(datum.buffer));
}

// Counts data that stayed on the device: the host had too little memory for the compressed bytes.
// If another executor of the offloader received that error, Await returned FailedPrecondition.
absl::Status ExecutorImpl::CountStay(const absl::Status& left) {
  if (!absl::IsResourceExhausted(left) && !absl::IsFailedPrecondition(left)) return left;
  ++timeline_.stayed;
  return absl::OkStatus();
}

absl::Status ExecutorImpl::Prefetch(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  Datum& datum = data_[step.index];
  const bool was_leaving = std::exchange(datum.is_leaving, false);
  absl::Status status =
      offloader_.Prefetch(datum.buffer, compute_, step.hint, absl::InfiniteFuture(), WatchOf(at));
  NotePeaks();
  if (!status.ok() || !was_leaving) return status;
  // Returns at once, because the buffer is not going out any more: with the error of the copy out
  // if it failed.
  status = offloader_.Await(datum.buffer);
  if (absl::IsFailedPrecondition(status)) return absl::OkStatus();
  return CountStay(status);
}

absl::Status ExecutorImpl::Synchronize() {
  for (; !leaving_.empty(); leaving_.pop_front()) {
    if (absl::Status status = Await(leaving_.front()); !status.ok()) return status;
  }
  if (absl::Status status = device_.SynchronizeStream(compute_); !status.ok()) return status;
  absl::Status status;
  do {
    status = offloader_.Synchronize();
    // Data of another executor of the offloader stayed: the host had too little memory.
  } while (absl::IsResourceExhausted(status));
  return status;
}

// Frees all data except weights. A valid schedule has freed it already.
absl::Status ExecutorImpl::FreeAllButWeights() {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    if (data_[i].buffer == BufferId() || graph_.data[i].kind == DataKind::kWeight) continue;
    if (absl::Status status = Free(i); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Measures. ---------------------------------------------------------------------------------------

CopyWatch ExecutorImpl::WatchOf(std::size_t at) const {
  return stamps_ == nullptr ? CopyWatch() : stamps_->Watch(at);
}

void ExecutorImpl::NotePeaks() {
  if (!measures_) return;
  const OffloaderStats stats = offloader_.Stats();
  timeline_.peak_device_bytes = std::max(timeline_.peak_device_bytes, stats.device_bytes);
  timeline_.peak_host_bytes = std::max(timeline_.peak_host_bytes, stats.peak_host_bytes);
}

void ExecutorImpl::ReadStamps() {
  NotePeaks();
  using Kind = TimelineEvent::Kind;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    const Stamps::Stamp& stamp = stamps_->of(i);
    if (!stamp.start.has_value() || !stamp.end.has_value()) continue;
    const ScheduleStep& step = schedule_.steps[i];
    const Kind kind = step.kind == StepKind::kRun       ? Kind::kTask
                      : step.kind == StepKind::kOffload ? Kind::kOffload
                                                        : Kind::kPrefetch;
    timeline_.events.push_back({kind, step.index, i, *stamp.start - begin_, *stamp.end - begin_});
    if (kind == Kind::kTask) timeline_.compute_seconds += *stamp.end - *stamp.start;
  }
  std::sort(timeline_.events.begin(), timeline_.events.end(),
            [](const TimelineEvent& left, const TimelineEvent& right) {
              return std::tie(left.start, left.step) < std::tie(right.start, right.step);
            });
  timeline_.stalls = MeasuredStalls(graph_, schedule_, timeline_.events);
}

}  // namespace
}  // namespace execute

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Device* device, Offloader* offloader,
                                                           const TaskGraph& graph,
                                                           const Schedule& schedule,
                                                           LaunchTask launch, FillData fill,
                                                           const ExecutorOptions& options) {
  if (device == nullptr || offloader == nullptr || launch == nullptr) {
    return absl::InvalidArgumentError(
        "a null pointer, expected a device, an offloader, and a function that launches tasks");
  }
  absl::Status status = schedule::CheckIsForPool(schedule, "the executor");
  if (status.ok()) status = ValidateSchedule(graph, schedule);
  if (!status.ok()) return status;
  auto executor = std::make_unique<execute::ExecutorImpl>(
      *device, *offloader, graph, schedule, std::move(launch), std::move(fill), options);
  if (status = executor->Start(); !status.ok()) return status;
  return executor;
}

LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale) {
  std::vector<std::vector<double>> seconds;
  seconds.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    auto& of_task = seconds.emplace_back();
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      of_task.push_back(algorithm.seconds * scale);
    }
  }
  return [device, seconds = std::move(seconds)](const TaskLaunch& launch) {
    const std::chrono::duration<double> time(seconds[launch.task][launch.algorithm]);
    return device->CallHost(launch.stream, [time] { std::this_thread::sleep_for(time); });
  };
}

}  // namespace tidepool
