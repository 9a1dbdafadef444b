// SPDX-License-Identifier: Apache-2.0
// Steps become operations.
#include "lib/training/schedule/lower/lowering.h"

#include <algorithm>

#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::schedule {
namespace {

using OperationKind = ProgramOperation::Kind;

constexpr double kRawCopy = -1;  // the density of ScheduleStep

}  // namespace

Lowering::Lowering(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
                   const LowerOptions& options, Program& program)
    : graph_(&graph),
      schedule_(schedule),
      machine_(machine),
      host_compression_(options.host_compression),
      maps_pages_(options.maps_pages && schedule.memory == ScheduleMemory::kPaged),
      program_(program),
      data_count_(graph.data.size()),
      streams_(AddStreams(machine, schedule.devices, program)),
      queue_(program),
      addresses_(schedule.devices),
      on_device_(schedule.devices * graph.data.size()),
      mapped_(maps_pages_ ? on_device_.size() : 0),
      homes_(mapped_.size()),
      has_begun_(on_device_.size()),
      on_host_((schedule.devices + 1) * graph.data.size()) {
  program.memory = schedule.memory;
  for (std::size_t device = 0; device < schedule.devices; ++device) {
    const std::int64_t memory = machine.devices[device].memory_bytes;
    const std::int64_t granules = memory / schedule.alignment * schedule.alignment;
    pages_.emplace_back(granules, maps_pages_ ? PageRanges({0, granules}) : PageRanges());
    program.address_bytes.push_back(0);
    program.pool_bytes.push_back(IsFixed() ? 0 : pages_.back().free_bytes());
    for (std::size_t data = 0; data < data_count_; ++data) {
      if (graph.data[data].before != DataHome::kHost) continue;
      const std::size_t instance = HostInstance(device, data);
      if (!on_host_[instance].empty()) continue;
      const std::int64_t bytes = graph.data[data].bytes;
      const std::uint32_t span = AddSpan({.device = kHostDevice, .bytes = bytes});
      on_host_[instance].Add({.end = bytes, .span = span, .state = DataPart::State::kThere});
    }
  }
}

absl::Status Lowering::AddStep(std::size_t at, std::uint32_t repetition) {
  at_ = at;
  repetition_ = repetition;
  const ScheduleStep& step = schedule_.steps[at];
  switch (step.kind) {
    case StepKind::kAllocate:
      return Allocate(step);
    case StepKind::kFree:
      Free(step);
      break;
    case StepKind::kRun:
      return Run(step);
    case StepKind::kOffload:
      return Offload(step);
    case StepKind::kPrefetch:
      return Prefetch(step);
    case StepKind::kDrop:
      return Drop(step);
    case StepKind::kReceive:
    case StepKind::kAdd:
      return Exchange(step);
    case StepKind::kSynchronize:
      queue_.Synchronize();
      break;
  }
  return absl::OkStatus();
}

absl::Status Lowering::Allocate(const ScheduleStep& step) {
  DataParts& parts = OnDevice(step.device, step.index);
  if (parts.empty()) return AddPart(step, 0, graph_->data[step.index].bytes);
  // Data at home on the device stays there from one iteration to the next.
  for (const DataPart& part : parts) {
    if (IsFixed() && part.offset != step.offset)
      return Wrong(
          "the data lies at another offset since the last "
          "iteration, expected the same one");
  }
  return absl::OkStatus();
}

void Lowering::Free(const ScheduleStep& step) {
  DataParts& parts = OnDevice(step.device, step.index);
  ShareUsers(parts);
  for (DataPart& part : parts) GivePart(step.device, step.index, part);
  parts = DataParts();
  EndHostSpans(step.device, step.index);
}

absl::Status Lowering::Drop(const ScheduleStep& step) {
  DataParts& parts = OnDevice(step.device, step.index);
  const std::int64_t end = EndOf(step);
  ShareUsers(parts);
  parts.Within(step.begin, end, [&](DataPart& part) { GivePart(step.device, step.index, part); });
  parts.Remove(step.begin, end);
  return CheckParts(parts);
}

absl::Status Lowering::Run(const ScheduleStep& step) {
  if (step.device != kHostDevice) return RunOnDevice(step);
  RunOnHost(step);
  return absl::OkStatus();
}

absl::Status Lowering::RunOnDevice(const ScheduleStep& step) {
  const GraphTask& task = graph_->tasks[step.index];
  const TaskAlgorithm& algorithm = task.algorithms[step.algorithm];
  const StreamEnd at = queue_.Next(streams_.Compute(step.device, step.stream));
  const std::int64_t workspace = algorithm.workspace_bytes;
  absl::StatusOr<Memory> buffer = TakeBuffer(step, workspace);
  if (!buffer.ok()) return buffer.status();
  UseData(step.device, task.reads, Use::kRead, at);
  UseData(step.device, task.writes, Use::kWrite, at);
  UseData(step.device, task.updates, Use::kWrite, at);
  const auto first_offset = static_cast<std::uint32_t>(program_.offsets.size());
  if (HasOffsets()) AddOffsets(step, buffer->offset);
  AddOperation({.kind = OperationKind::kTask,
                .algorithm = static_cast<std::uint32_t>(step.algorithm),
                .first_offset = first_offset,
                .seconds = algorithm.seconds},
               at);
  pages_[step.device].FindIdle(at.stream,
                               [this](const StreamEnd& user) { return queue_.IsLastTask(user); });
  GiveBuffer(step, *std::move(buffer), workspace, at);
  return absl::OkStatus();
}

// Takes memory that the next operation alone uses. Without bytes it has no address.
absl::StatusOr<Lowering::Memory> Lowering::TakeBuffer(const ScheduleStep& step,
                                                      std::int64_t bytes) {
  if (bytes == 0) return Memory();
  absl::StatusOr<Memory> buffer = TakeMemory(step, 0, bytes);
  if (!buffer.ok()) return buffer.status();
  queue_.Await(buffer->users, Reason::kMemory);
  if (!maps_pages_) return buffer;
  std::int64_t offset = buffer->offset = NewAddresses(step.device, bytes);
  for (const ByteRange& range : buffer->pages) {
    AddMapping(step.device, offset, range);
    offset += range.end - range.begin;
  }
  return buffer;
}

// Gives back memory that one operation alone has used.
void Lowering::GiveBuffer(const ScheduleStep& step, Memory buffer, std::int64_t bytes,
                          StreamEnd at) {
  if (bytes == 0) return;
  buffer.users = StreamEnds(at);
  GiveMemory(step.device, std::move(buffer), 0, bytes);
  DataPart part = {.span = AddSpan({.device = step.device,
                                    .offset = step.offset,
                                    .bytes = Rounded(bytes),
                                    .first = at.operation}),
                   .state = DataPart::State::kWritten,
                   .users = StreamEnds(at)};
  EndSpan(part, Rounded(bytes));
}

void Lowering::RunOnHost(const ScheduleStep& step) {
  const GraphTask& task = graph_->tasks[step.index];
  const StreamEnd at = queue_.Next(streams_.Host(step.stream));
  double seconds = 0;
  for (const std::size_t data : task.reads) seconds += AddUpOnHost(data, at);
  for (const std::size_t data : graph::ChangesOf(task)) {
    const std::int64_t bytes = graph_->data[data].bytes;
    WriteHost(HostInstance(kHostDevice, data), 0, bytes, kRawCopy, at);
    seconds += static_cast<double>(bytes) / machine_.host.update_bytes_per_second;
  }
  AddOperation({.kind = OperationKind::kTask,
                .algorithm = static_cast<std::uint32_t>(step.algorithm),
                .seconds = seconds},
               at);
}

// Makes the next operation read the host's copies of a datum from all devices. Returns the seconds
// that a core takes to add them up.
double Lowering::AddUpOnHost(std::size_t data, StreamEnd at) {
  std::int64_t bytes = 0;
  for (std::size_t i = data; i < on_host_.size(); i += data_count_) {
    for (DataPart& part : on_host_[i]) {
      UsePart(part, Use::kRead, at);
      bytes += part.end - part.begin;
    }
  }
  return static_cast<double>(bytes) / machine_.host.accumulation_bytes_per_second;
}

absl::Status Lowering::Offload(const ScheduleStep& step) {
  const std::int64_t end = EndOf(step);
  const StreamEnd at = queue_.Next(streams_.Out(step.device));
  DataParts& parts = OnDevice(step.device, step.index);
  std::int64_t offset = -1;
  parts.Within(step.begin, end, [&](DataPart& part) {
    UsePart(part, Use::kRead, at);
    offset = part.offset;
  });
  const std::size_t instance = HostInstance(step.device, step.index);
  WriteHost(instance, step.begin, end, step.density, at);
  if (absl::Status status = CheckParts(parts); !status.ok()) return status;
  if (absl::Status status = CheckParts(on_host_[instance]); !status.ok()) return status;
  const auto first_offset = static_cast<std::uint32_t>(program_.offsets.size());
  if (HasOffsets()) program_.offsets.push_back(offset + step.begin);
  AddOperation({.kind = OperationKind::kOffload,
                .first_offset = first_offset,
                .seconds = CopySeconds(step, on_host_[instance]),
                .begin = step.begin,
                .end = end},
               at);
  return absl::OkStatus();
}

absl::Status Lowering::Prefetch(const ScheduleStep& step) {
  const std::int64_t end = EndOf(step);
  if (absl::Status status = AddPart(step, step.begin, end); !status.ok()) return status;
  const StreamEnd at = queue_.Next(streams_.In(step.device));
  DataParts& parts = OnDevice(step.device, step.index);
  parts.Within(step.begin, end, [&](DataPart& part) { UsePart(part, Use::kWrite, at); });
  DataParts& copies = on_host_[HostInstance(step.device, step.index)];
  copies.Within(step.begin, end, [&](DataPart& part) { UsePart(part, Use::kRead, at); });
  if (absl::Status status = CheckParts(parts); !status.ok()) return status;
  if (absl::Status status = CheckParts(copies); !status.ok()) return status;
  const auto first_offset = static_cast<std::uint32_t>(program_.offsets.size());
  if (HasOffsets()) program_.offsets.push_back(parts.begin()->offset + step.begin);
  AddOperation({.kind = OperationKind::kPrefetch,
                .first_offset = first_offset,
                .seconds = CopySeconds(step, copies),
                .begin = step.begin,
                .end = end},
               at);
  return absl::OkStatus();
}

// A copy from another device reads the data there and writes it here.
absl::Status Lowering::Exchange(const ScheduleStep& step) {
  const std::int64_t end = EndOf(step);
  const bool adds = step.kind == StepKind::kAdd;
  const StreamEnd at = queue_.Next(streams_.Peer(step.device));
  const std::int64_t received = adds ? end - step.begin : 0;
  absl::StatusOr<Memory> buffer = TakeBuffer(step, received);
  if (!buffer.ok()) return buffer.status();
  const auto first_offset = static_cast<std::uint32_t>(program_.offsets.size());
  for (const std::size_t device : {step.device, step.source}) {
    DataParts& parts = OnDevice(device, step.index);
    std::int64_t offset = -1;
    parts.Within(step.begin, end, [&](DataPart& part) {
      UsePart(part, device == step.device ? Use::kWrite : Use::kRead, at);
      offset = part.offset;
    });
    if (absl::Status status = CheckParts(parts); !status.ok()) return status;
    if (HasOffsets()) program_.offsets.push_back(offset + step.begin);
  }
  if (HasOffsets() && adds) program_.offsets.push_back(buffer->offset);
  AddOperation({.kind = adds ? OperationKind::kAdd : OperationKind::kReceive,
                .first_offset = first_offset,
                .seconds = ExchangeSeconds(step),
                .begin = step.begin,
                .end = end},
               at);
  GiveBuffer(step, *std::move(buffer), received, at);
  return absl::OkStatus();
}

double Lowering::ExchangeSeconds(const ScheduleStep& step) const {
  const PeerLinks& peers = machine_.peers;
  const auto bytes = static_cast<double>(EndOf(step) - step.begin);
  const double seconds = peers.latency_seconds + bytes / peers.bytes_per_second;
  if (step.kind == StepKind::kReceive) return seconds;
  return seconds + bytes / peers.addition_bytes_per_second;
}

void Lowering::AddOperation(ProgramOperation operation, StreamEnd at) {
  Count(operation.end - operation.begin);
  operation.stream = static_cast<std::uint16_t>(at.stream);
  operation.index = static_cast<std::uint32_t>(schedule_.steps[at_].index);
  operation.step = static_cast<std::uint32_t>(at_);
  operation.repetition = repetition_;
  queue_.Add(operation);
}

void Lowering::AddOffsets(const ScheduleStep& step, std::int64_t workspace_offset) {
  const GraphTask& task = graph_->tasks[step.index];
  for (const std::size_t data : graph::UsesOf(task)) {
    DataParts& parts = OnDevice(step.device, data);
    program_.offsets.push_back(parts.empty() ? -1 : parts.begin()->offset);
  }
  program_.offsets.push_back(workspace_offset);
}

// Returns the time of a copy that the host compresses, or decompresses.
double Lowering::HostCopySeconds(const ScheduleStep& step, double density) const {
  const MachineLink& link = machine_.links[machine_.devices[step.device].link];
  const bool is_out = step.kind == StepKind::kOffload;
  const CompressionProfile& profile = host_compression_->profile;
  const int threads =
      host_compression_->threads == 0 ? profile.threads : host_compression_->threads;
  return link.latency_seconds +
         TransferSeconds(profile, EndOf(step) - step.begin, ZeroValueWord::k32Bits, density,
                         is_out ? TransferDirection::kOffload : TransferDirection::kPrefetch,
                         is_out ? link.out_bytes_per_second : link.in_bytes_per_second, threads);
}

// Returns the time of a copy between the device and copies on the host, which may be compressed.
double Lowering::CopySeconds(const ScheduleStep& step, DataParts& copies) const {
  const MachineDevice& device = machine_.devices[step.device];
  const MachineLink& link = machine_.links[device.link];
  const CopyCompressor& compressor = device.compressor;
  const bool is_out = step.kind == StepKind::kOffload;
  if (host_compression_ != nullptr && copies.begin()->density >= 0) {
    return HostCopySeconds(step, copies.begin()->density);
  }
  double sent = 0;
  double compressed = 0;
  copies.Within(step.begin, EndOf(step), [&](const DataPart& part) {
    const auto bytes = static_cast<double>(part.end - part.begin);
    const bool is_raw = part.density < 0;
    sent += is_raw ? bytes : bytes * SentShare(part.density);
    compressed += is_raw ? 0 : bytes;
  });
  const double seconds = sent / (is_out ? link.out_bytes_per_second : link.in_bytes_per_second);
  if (compressed == 0) return link.latency_seconds + seconds;
  const double rate = is_out ? compressor.out_bytes_per_second : compressor.in_bytes_per_second;
  return link.latency_seconds + std::max(seconds, compressed / rate);
}

std::int64_t Lowering::EndOf(const ScheduleStep& step) const {
  return step.end < 0 ? graph_->data[step.index].bytes : step.end;
}

// Weights and the state of their optimizer have one copy on the host for all devices.
bool Lowering::IsShared(std::size_t data) const {
  const DataKind kind = graph_->data[data].kind;
  return kind == DataKind::kWeight || kind == DataKind::kOptimizerState;
}

std::size_t Lowering::HostInstance(std::size_t device, std::size_t data) const {
  const bool is_of_host = device == kHostDevice || IsShared(data);
  return (is_of_host ? schedule_.devices : device) * data_count_ + data;
}

absl::Status Lowering::Wrong(const char* text) const {
  return WrongStep(*graph_, schedule_, at_, text);
}

absl::Status Lowering::CheckParts(const DataParts& parts) const {
  if (parts.size() <= DataParts::kMost) return absl::OkStatus();
  return WrongStep(*graph_, schedule_, at_, "the data is in ", parts.size(),
                   " ranges, expected up to ", DataParts::kMost);
}

}  // namespace tidepool::schedule
