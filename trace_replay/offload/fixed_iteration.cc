// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/fixed_iteration.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/host_device.h"
#include "trace_replay/replay/cuda_devices.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kSlotBytes = std::int64_t{1} << 20;  // of the pipeline's rings

// Returns the pages of a host device: the schedule's, or those of this machine where they are
// larger.
std::int64_t HostGranularity(const Schedule& schedule) {
  const std::int64_t power_of_two = schedule.alignment & -schedule.alignment;
  return std::max<std::int64_t>(power_of_two, sysconf(_SC_PAGESIZE));
}

absl::StatusOr<std::unique_ptr<HostDevice>> MakeHostDeviceOf(const Machine& machine,
                                                             const Schedule& schedule,
                                                             std::size_t number,
                                                             std::int64_t pool_bytes) {
  const MachineLink& link = machine.links[machine.devices[number].link];
  HostDeviceOptions options;
  if (schedule.memory == ScheduleMemory::kPaged) options.granularity = HostGranularity(schedule);
  // The executor may need a little more, for the alignment.
  options.memory_bytes = pool_bytes + kMostAlignment;
  options.copy_bytes_per_second =
      std::isinf(link.out_bytes_per_second) ? 0 : link.out_bytes_per_second;
  options.copy_latency_ns = static_cast<std::int64_t>(link.latency_seconds * 1e9);
  return HostDevice::Create(options);
}

// Returns the highest density of the compressed copies, or -1 without one.
double HighestDensity(const Schedule& schedule) {
  double density = -1;
  for (const ScheduleStep& step : schedule.steps) density = std::max(density, step.density);
  return density;
}

std::int64_t BytesOut(const Program& program) {
  std::int64_t bytes = 0;
  for (const ProgramOperation& operation : program.operations) {
    if (operation.kind == ProgramOperation::Kind::kOffload)
      bytes += operation.end - operation.begin;
  }
  return bytes;
}

template <typename T>
absl::Status Keep(absl::StatusOr<std::unique_ptr<T>> made, std::unique_ptr<T>& kept) {
  if (!made.ok()) return made.status();
  kept = *std::move(made);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> WithPagesOfDevice(const std::string& device, const Schedule& schedule) {
  if (schedule.memory != ScheduleMemory::kPaged) return schedule;
  absl::StatusOr<std::unique_ptr<Device>> made =
      device == "cuda" ? MakeCudaDevice()
                       : HostDevice::Create({.granularity = HostGranularity(schedule)});
  if (!made.ok()) return made.status();
  return WithPagesOf(std::vector<Device*>(schedule.devices, made->get()), schedule);
}

absl::StatusOr<std::unique_ptr<FixedIteration>> FixedIteration::Create(
    const FixedIterationOptions& options, absl::Span<const TaskGraph> graphs,
    const Schedule& schedule) {
  std::unique_ptr<FixedIteration> iteration(new FixedIteration(options, graphs));
  if (absl::Status status = iteration->Start(schedule); !status.ok()) return status;
  return iteration;
}

absl::StatusOr<Program> FixedIteration::Lower(const Schedule& schedule) const {
  LowerOptions options;
  if (options_.host_compression.has_value()) {
    options.host_compression = &*options_.host_compression;
  }
  return LowerSchedule(graphs_, schedule, options_.machine, options);
}

absl::Status FixedIteration::Start(const Schedule& schedule) {
  absl::StatusOr<Program> program = Lower(schedule);
  if (!program.ok()) return program.status();
  program_ = *std::move(program);
  for (const double density : options_.densities) words_.push_back(WordsOfDensity(density));
  absl::Status status = MakeDevices(schedule);
  if (status.ok()) status = MakeCompressor(schedule);
  if (!status.ok()) return status;
  ExecutorOptions executor = {
      .measures = true,
      .on_step = options_.on_step,
      .probe_every = options_.probe_every,
      .on_density = options_.on_density,
      .pipeline = pipeline_.get(),
      .add_received = [this](const ReceivedGradient& gradient) { return Add(gradient); }};
  if (compressor_ != nullptr) {
    executor.copy_compressed = [this](const CompressedCopy& copy) {
      return compressor_->Copy(copy);
    };
  }
  return Keep(Executor::Create(
                  Devices(), graphs_, schedule, options_.machine,
                  [this](const TaskLaunch& launch) { return Launch(launch); },
                  [this](const HomeFill& fill) { return Fill(fill); }, executor),
              executor_);
}

std::vector<Device*> FixedIteration::Devices() const {
  std::vector<Device*> devices;
  devices.reserve(devices_.size());
  for (const auto& one : devices_) devices.push_back(one.get());
  return devices;
}

absl::Status FixedIteration::MakeDevices(const Schedule& schedule) {
  const bool is_cuda = options_.device == "cuda";
  if (is_cuda && schedule.devices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: the schedule has ", schedule.devices,
                     " devices, and cuda has one GPU; expected --device host"));
  }
  for (std::size_t i = 0; i < schedule.devices; ++i) {
    absl::StatusOr<std::unique_ptr<Device>> made =
        is_cuda ? MakeCudaDevice()
                : MakeHostDeviceOf(options_.machine, schedule, i, program_.pool_bytes[i]);
    if (!made.ok()) return made.status();
    devices_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::Status FixedIteration::MakeCompressor(const Schedule& schedule) {
  const double density = HighestDensity(schedule);
  if (options_.host_compression.has_value()) {
    // With probes, every copy may become a compressed one.
    return density >= 0 || options_.probe_every > 0 ? MakePipeline() : absl::OkStatus();
  }
  if (density < 0 || options_.device != "host") return absl::OkStatus();
  words_ = {WordsOfDensity(density)};
  writes_once_ = true;
  return Keep(HostCompressor::Create(Devices(), options_.machine), compressor_);
}

absl::Status FixedIteration::MakePipeline() {
  CompressionPipelineOptions options;
  options.ring.slot_bytes = kSlotBytes;
  options.threads = options_.host_compression->threads;
  Device* const device = devices_.front().get();
  absl::Status status = Keep(
      PinnedPool::Create(device, {.max_bytes = 2 * options.ring.slots * kSlotBytes + (1 << 16)}),
      staging_);
  if (!status.ok()) return status;
  // Room for all copies, even where no word is zero.
  const std::int64_t bytes = BytesOut(program_);
  status = Keep(PagePool::Create({.max_bytes = bytes + bytes / 8 + (1 << 20)}), pages_);
  if (!status.ok()) return status;
  return Keep(CompressionPipeline::Create(device, staging_.get(), pages_.get(), options),
              pipeline_);
}

absl::StatusOr<Timeline> FixedIteration::Run() {
  next_ = 0;
  ++iteration_;
  return executor_->Run();
}

absl::Status FixedIteration::Reschedule(const Schedule& schedule) {
  absl::StatusOr<Program> program = Lower(schedule);
  if (!program.ok()) return program.status();
  if (absl::Status status = executor_->Reschedule(schedule); !status.ok()) return status;
  program_ = *std::move(program);
  return absl::OkStatus();
}

// Spends the seconds of the program's next task in the stream: launches come in its order.
absl::Status FixedIteration::Launch(const TaskLaunch& launch) {
  if (!words_.empty() && !(writes_once_ && iteration_ > 1)) {
    if (absl::Status status = WriteWords(launch); !status.ok()) return status;
  }
  while (program_.operations[next_].kind != ProgramOperation::Kind::kTask) ++next_;
  const double seconds = program_.operations[next_++].seconds;
  return DeviceOf(launch).SpendTime(launch.stream, std::llround(seconds * 1e9));
}

// Adds the words as numbers, as a kernel would.
absl::Status FixedIteration::Add(const ReceivedGradient& gradient) {
  return devices_[gradient.device]->CallHost(gradient.stream, [gradient] {
    auto* const sum = static_cast<float*>(gradient.sum);
    const auto* const received = static_cast<const float*>(gradient.received);
    const auto count = static_cast<std::size_t>(gradient.bytes) / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) sum[i] += received[i];
  });
}

absl::Status FixedIteration::WriteWords(const TaskLaunch& launch) {
  const TaskGraph& graph = graphs_[launch.graph];
  const std::vector<std::size_t>& writes = graph.tasks[launch.task].writes;
  const WordPattern& words = words_[std::min(iteration_, words_.size()) - 1];
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const GraphData& data = graph.data[writes[i]];
    if (!writes_once_ && data.kind != DataKind::kActivation) continue;
    absl::Status status = DeviceOf(launch).CallHost(
        launch.stream,
        [words, to = launch.writes[i], bytes = data.bytes] { FillWithWords(words, to, bytes); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Inputs have no zeros where densities count.
absl::Status FixedIteration::Fill(const HomeFill& fill) {
  Device& device = *devices_[fill.device];
  if (writes_once_) {
    return device.CallHost(fill.stream,
                           [words = words_.front(), address = fill.address, bytes = fill.bytes] {
                             FillWithWords(words, address, bytes);
                           });
  }
  const std::uint8_t value = words_.empty() ? 0 : 1;
  if (!fill.is_on_host) return device.Fill(fill.address, value, fill.bytes, fill.stream);
  return device.CallHost(fill.stream, [value, address = fill.address, bytes = fill.bytes] {
    std::memset(address, value, static_cast<std::size_t>(bytes));
  });
}

}  // namespace tidepool::tool
