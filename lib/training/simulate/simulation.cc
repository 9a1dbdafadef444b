// SPDX-License-Identifier: Apache-2.0
// The steps of a simulation: clocks, tasks and copies.
#include "lib/training/simulate/simulation.h"

#include <algorithm>
#include <utility>

#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/begin_on_host.h"
#include "lib/training/schedule/visit_step.h"

namespace tidepool::simulate {

Simulation::Simulation(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
                       const TimelineOptions& options, std::unique_ptr<PlacementPolicy> policy,
                       std::vector<bool> stays)
    : graph_(graph),
      schedule_(schedule),
      link_(machine.links[machine.devices.front().link]),
      host_bytes_(machine.host.memory_bytes),
      options_(options),
      stays_(std::move(stays)),
      threads_(options.compression_threads == 0 ? options.compression.threads
                                                : options.compression_threads),
      memory_(graph, machine.devices.front().memory_bytes, options.alignment, std::move(policy)),
      host_room_(host_bytes_),
      leaving_(graph.data.size()),
      data_(graph.data.size()) {
  timeline_.events.reserve(schedule.steps.size());
  timeline_.resolved = {schedule.policy, schedule.fingerprint, {}};
  timeline_.resolved.steps.reserve(schedule.steps.size() * 5 / 4);
}

absl::StatusOr<Timeline> Simulation::Simulate() {
  if (absl::Status status = TakeHomes(); !status.ok()) return status;
  for (at_ = 0; at_ < schedule_.steps.size(); ++at_) {
    const ScheduleStep& step = schedule_.steps[at_];
    absl::Status status = schedule::VisitStep(step, *this);
    if (!status.ok()) return status;
    if (!stays_[at_]) timeline_.resolved.steps.push_back(step);
  }
  FinishTimeline();
  return std::move(timeline_);
}

// Takes room for homes on the host: of data that begins there until it is on the device, and of
// data that ends there for the whole iteration.
absl::Status Simulation::TakeHomes() {
  const std::vector<bool> are_on_host = schedule::BeginOnHost(graph_);
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const GraphData& data = graph_.data[i];
    if (!are_on_host[i] && data.after != DataHome::kHost) continue;
    if (!host_room_.Take(0, data.bytes)) return NoHomeError(i);
    data_[i].is_out = are_on_host[i];
    if (data.after != DataHome::kHost) data_[i].host_bytes = data.bytes;
  }
  return absl::OkStatus();
}

double Simulation::Position() const { return std::max(host_.seconds, compute_.seconds); }

absl::Status Simulation::Allocate(const ScheduleStep& step) {
  absl::Status status = TakeDeviceMemory(step.index, step.hint);
  data_[step.index].written = data_[step.index].held_since;
  return status;
}

absl::Status Simulation::Free(const ScheduleStep& step) {
  Datum& datum = data_[step.index];
  const bool is_leaving = leaving_.Holds(step.index);
  if (is_leaving) leaving_.Leave(step.index);
  if (!datum.is_out) {
    compute_.Await({datum.copied, Reason::kMemory, step.index});
    GiveDeviceMemory(step.index, Position());
  }
  if (datum.is_out || is_leaving) host_room_.GiveBackFreed(Position(), datum.host_bytes);
  return absl::OkStatus();
}

absl::Status Simulation::Run(const ScheduleStep& step) {
  const GraphTask& task = graph_.tasks[step.index];
  const TaskAlgorithm& algorithm = task.algorithms[step.algorithm];
  BlockId workspace = kNoBlock;
  if (algorithm.workspace_bytes > 0) {
    absl::StatusOr<BlockId> block = TakeBlock(algorithm.workspace_bytes, Hint::kResident);
    if (!block.ok()) return block.status();
    workspace = *block;
  }
  const double start = StartTask(step.index);
  const double end = start + algorithm.seconds;
  if (workspace != kNoBlock) {
    memory_.Give(workspace);
    device_.AddBetween(start, end, memory_.Rounded(algorithm.workspace_bytes));
  }
  AddEvent(EventKind::kTask, step.index, start, end);
  timeline_.compute_seconds += algorithm.seconds;
  SetUses(task, end);
  task_end_ = end;
  compute_ = {.seconds = end};
  return absl::OkStatus();
}

// Returns the start of a task, and records the wait before it as a stall.
double Simulation::StartTask(std::size_t index) {
  const GraphTask& task = graph_.tasks[index];
  Ready ready = compute_;
  ready.Await(host_);
  for (const std::size_t data : graph::InputsOf(task))
    ready.Await({data_[data].fetched, Reason::kData, data});
  if (ready.seconds > task_end_) {
    timeline_.stalls.push_back(
        {index, task_end_, ready.seconds - task_end_, ready.reason, ready.data});
  }
  return ready.seconds;
}

void Simulation::SetUses(const GraphTask& task, double end) {
  for (const std::size_t data : graph::UsesOf(task)) data_[data].used = end;
  for (const std::size_t data : graph::ChangesOf(task)) data_[data].written = end;
}

absl::Status Simulation::Offload(const ScheduleStep& step) {
  Datum& datum = data_[step.index];
  const std::int64_t bytes = graph_.data[step.index].bytes;
  const double start = std::max({out_.seconds, host_.seconds, datum.written, datum.copied});
  const bool has_home = graph_.data[step.index].after == DataHome::kHost;
  const std::int64_t host_bytes = has_home ? 0 : HostBytes(bytes, step.density);
  if (stays_[at_] || !host_room_.Take(start, host_bytes)) {
    stays_[at_] = true;
    ++timeline_.stayed;
    return absl::OkStatus();
  }
  const double end = start + CopySeconds(bytes, step.density, TransferDirection::kOffload);
  AddEvent(EventKind::kOffload, step.index, start, end);
  timeline_.bytes_out += bytes;
  datum.density = step.density;
  datum.host_bytes = host_bytes;
  datum.copied = end;
  SetTail(out_, end, step.index);
  leaving_.Join(step.index);
  return absl::OkStatus();
}

absl::Status Simulation::Await(const ScheduleStep& step) {
  if (leaving_.Holds(step.index)) AwaitData(step.index);
  return absl::OkStatus();
}

absl::Status Simulation::Prefetch(const ScheduleStep& step) {
  Datum& datum = data_[step.index];
  if (leaving_.Holds(step.index)) {
    leaving_.Leave(step.index);
    host_room_.GiveBackUnused(datum.copied, datum.host_bytes);
  }
  if (!datum.is_out) return absl::OkStatus();
  if (absl::Status status = TakeDeviceMemory(step.index, step.hint); !status.ok()) return status;
  const std::int64_t bytes = graph_.data[step.index].bytes;
  const double start = std::max(in_.seconds, Position());
  const double end = start + CopySeconds(bytes, datum.density, TransferDirection::kPrefetch);
  AddEvent(EventKind::kPrefetch, step.index, start, end);
  timeline_.bytes_in += bytes;
  host_room_.GiveBackFetched(end, datum.host_bytes);
  datum.is_out = false;
  datum.fetched = datum.copied = end;
  SetTail(in_, end, step.index);
  return absl::OkStatus();
}

absl::Status Simulation::Synchronize() {
  Ready all = host_;
  all.Await({compute_.seconds, Reason::kSynchronize, 0});
  all.Await(out_);
  all.Await(in_);
  while (!leaving_.empty()) AwaitData(leaving_.first());
  host_ = all;
  return absl::OkStatus();
}

double Simulation::CopySeconds(std::int64_t bytes, double density,
                               TransferDirection direction) const {
  const double link = direction == TransferDirection::kOffload ? link_.out_bytes_per_second
                                                               : link_.in_bytes_per_second;
  return link_.latency_seconds +
         (density < 0 ? RawSeconds(bytes, link)
                      : TransferSeconds(options_.compression, bytes, ZeroValueWord::k32Bits,
                                        density, direction, link, threads_));
}

std::int64_t Simulation::HostBytes(std::int64_t bytes, double density) const {
  if (density < 0) return bytes;
  return CompressedBytes(options_.compression, bytes, ZeroValueWord::k32Bits, density);
}

// Sets the end of a copy stream's queue. With one transfer at a time both streams are the same.
void Simulation::SetTail(Ready& stream, double end, std::size_t data) {
  stream.Await({end, Reason::kSynchronize, data});
  if (!link_.full_duplex) out_ = in_ = stream;
}

void Simulation::AddEvent(EventKind kind, std::size_t index, double start, double end) {
  timeline_.events.push_back({kind, index, at_, start, end});
}

void Simulation::FinishTimeline() {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const Datum& datum = data_[i];
    if (leaving_.Holds(i)) {
      device_.AddBetween(datum.held_since, std::max(datum.copied, datum.used),
                         memory_.Rounded(graph_.data[i].bytes));
    } else if (ExistsAfter(graph_.data[i]) && !datum.is_out) {
      // Weights stay on the device, and all else that exists there after the iteration.
      device_.Add(datum.held_since, memory_.Rounded(graph_.data[i].bytes));
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

}  // namespace tidepool::simulate
