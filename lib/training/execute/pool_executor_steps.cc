// SPDX-License-Identifier: Apache-2.0
// The steps of a pool's schedule; each queues work on streams.
#include <algorithm>
#include <optional>

#include "lib/training/execute/pool_executor.h"

namespace tidepool::execute {

absl::Status PoolExecutor::PerformStep(std::size_t at) {
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
    case StepKind::kPrefetch:
      status = Prefetch(at);
      break;
    case StepKind::kSynchronize:
      status = SynchronizeStreams();
      break;
    case StepKind::kDrop:
      status = Await(step.index);
      break;
    case StepKind::kReceive:  // not in a pool's schedule, and so is the next
    case StepKind::kAdd:
      break;
  }
  const std::size_t event = step_events_.recorded[at];
  if (!status.ok() || event == kNoEvent) return status;
  // Data that no task has written yet was written by the copy that brought it.
  const Stream writer = step.kind == StepKind::kPrefetch ? offloader_.in_stream() : compute_;
  return device_.RecordEvent(events_[event], writer);
}

absl::Status PoolExecutor::Allocate(const ScheduleStep& step) {
  const GraphData& data = graph_.data[step.index];
  Datum& datum = data_[step.index];
  const bool is_allocated = datum.buffer != BufferId();  // a weight, in a previous iteration
  if (is_allocated) return absl::OkStatus();
  const absl::StatusOr<BufferId> buffer =
      offloader_.Allocate(static_cast<std::size_t>(data.bytes), compute_, step.hint, data.name);
  if (!buffer.ok()) return buffer.status();
  datum.buffer = *buffer;
  NotePeaks();
  if (!ExistsBefore(data) || fill_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<void*> address = offloader_.Use(*buffer, compute_);
  return address.ok() ? fill_(step.index, *address, compute_) : address.status();
}

absl::Status PoolExecutor::Free(std::size_t data) {
  Datum& datum = data_[data];
  if (datum.buffer == BufferId()) return absl::OkStatus();  // it never left its home
  absl::Status status = homes_.Await(data, compute_);
  if (status.ok()) status = offloader_.Free(datum.buffer);
  if (status.ok()) datum = {};
  return status;
}

absl::Status PoolExecutor::RunTask(std::size_t at) {
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

absl::Status PoolExecutor::Launch(std::size_t at, BufferId workspace) {
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
  if (!measures_) return launch_(launch);
  const absl::StatusOr<CopyWatch> watch = WatchOf(at);
  if (!watch.ok()) return watch.status();
  status = device_.RecordEvent(watch->begins, compute_);
  if (status.ok()) status = launch_(launch);
  return status.ok() ? device_.RecordEvent(watch->ends, compute_) : status;
}

absl::Status PoolExecutor::AddAddresses(const std::vector<std::size_t>& uses,
                                        std::vector<void*>& addresses) {
  addresses.reserve(uses.size());
  for (const std::size_t data : uses) {
    if (absl::Status status = homes_.Await(data, compute_); !status.ok()) return status;
    const absl::StatusOr<void*> address = offloader_.Use(data_[data].buffer, compute_);
    if (!address.ok()) return address.status();
    addresses.push_back(*address);
  }
  return absl::OkStatus();
}

absl::Status PoolExecutor::Offload(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  Datum& datum = data_[step.index];
  absl::StatusOr<CopyWatch> watch = WatchOf(at);
  if (!watch.ok()) return watch.status();
  absl::Status status = offloader_.Offload(
      datum.buffer, events_[step_events_.awaited[at]],
      step.density < 0 ? std::nullopt : std::optional(ZeroValueWord::k32Bits), *std::move(watch));
  if (absl::IsResourceExhausted(status)) {
    ++timeline_.stayed;
    return absl::OkStatus();
  }
  if (!status.ok()) return status;
  datum.is_leaving = true;
  leaving_.push_back(step.index);
  return absl::OkStatus();
}

absl::Status PoolExecutor::Await(std::size_t data) {
  Datum& datum = data_[data];
  if (!datum.is_leaving) return absl::OkStatus();
  datum.is_leaving = false;
  return CountStay(offloader_.Await(datum.buffer));
}

// Counts data that stayed on the device: the host had too little memory for the compressed bytes.
// If another executor of the offloader received that error, Await returned FailedPrecondition.
absl::Status PoolExecutor::CountStay(const absl::Status& left) {
  if (!absl::IsResourceExhausted(left) && !absl::IsFailedPrecondition(left)) return left;
  ++timeline_.stayed;
  return absl::OkStatus();
}

absl::Status PoolExecutor::Prefetch(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  Datum& datum = data_[step.index];
  if (datum.buffer == BufferId()) return FetchHome(at);
  absl::Status status = probes_ ? Probe(step.index) : absl::OkStatus();
  if (!status.ok()) return status;
  const absl::StatusOr<CopyWatch> watch = WatchOf(at);
  if (!watch.ok()) return watch.status();
  status = offloader_.Prefetch(datum.buffer, compute_, step.hint, absl::InfiniteFuture(), *watch);
  NotePeaks();
  return status;
}

// Tells the density of data that is out. Other data stayed.
absl::Status PoolExecutor::Probe(std::size_t data) {
  const absl::StatusOr<DensityEstimate> estimate = offloader_.ProbeDensity(data_[data].buffer);
  if (estimate.ok()) on_density_(data, *estimate);
  return absl::IsFailedPrecondition(estimate.status()) ? absl::OkStatus() : estimate.status();
}

// Brings data from its home. Data that ends on the host stays with the offloader, so that later
// iterations do not come here.
absl::Status PoolExecutor::FetchHome(std::size_t at) {
  const ScheduleStep& step = schedule_.steps[at];
  const GraphData& data = graph_.data[step.index];
  const absl::StatusOr<BufferId> buffer =
      offloader_.Allocate(static_cast<std::size_t>(data.bytes), compute_, step.hint, data.name);
  if (!buffer.ok()) return buffer.status();
  data_[step.index].buffer = *buffer;
  NotePeaks();
  const absl::StatusOr<void*> address = offloader_.Use(*buffer, compute_);
  if (!address.ok()) return address.status();
  if (fill_ != nullptr) {
    absl::Status status = fill_(step.index, homes_.AddressOf(step.index), compute_);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<CopyWatch> watch = WatchOf(at);
  if (!watch.ok()) return watch.status();
  home_bytes_in_ += data.bytes;
  return homes_.Fetch(step.index, *address, compute_, offloader_.in_stream(), *watch);
}

// Waits for tasks and raw copies. Drops give memory back.
absl::Status PoolExecutor::SynchronizeStreams() {
  absl::Status status = homes_.AwaitAll(compute_);
  for (const Stream stream : {compute_, offloader_.out_stream(), offloader_.in_stream()}) {
    if (status.ok()) status = device_.SynchronizeStream(stream);
  }
  return status;
}

absl::Status PoolExecutor::Synchronize() {
  for (; !leaving_.empty(); leaving_.pop_front()) {
    if (absl::Status status = Await(leaving_.front()); !status.ok()) return status;
  }
  absl::Status status = homes_.AwaitAll(compute_);
  if (status.ok()) status = device_.SynchronizeStream(compute_);
  if (!status.ok()) return status;
  do {
    status = offloader_.Synchronize();
    // Data of another executor of the offloader stayed: the host had too little memory.
  } while (absl::IsResourceExhausted(status));
  return status;
}

// Frees all data except weights and other data that exists after an iteration. A valid schedule has
// freed it already.
absl::Status PoolExecutor::FreeAllButWeights() {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    if (data_[i].buffer == BufferId() || ExistsAfter(graph_.data[i])) continue;
    if (absl::Status status = Free(i); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tidepool::execute
