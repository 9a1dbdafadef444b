// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/fixed_iteration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/host_device.h"
#include "trace_replay/replay/cuda_devices.h"

namespace tidepool::tool {
namespace {

absl::StatusOr<std::unique_ptr<HostDevice>> MakeHostDeviceOf(const Machine& machine,
                                                             std::size_t number,
                                                             std::int64_t pool_bytes) {
  const MachineLink& link = machine.links[machine.devices[number].link];
  HostDeviceOptions options;
  // The executor may need a little more, for the alignment.
  options.memory_bytes = pool_bytes + kMostAlignment;
  options.copy_bytes_per_second =
      std::isinf(link.out_bytes_per_second) ? 0 : link.out_bytes_per_second;
  options.copy_latency_ns = static_cast<std::int64_t>(link.latency_seconds * 1e9);
  return HostDevice::Create(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FixedIteration>> FixedIteration::Create(
    const std::string& device, absl::Span<const TaskGraph> graphs, const Schedule& schedule,
    const Machine& machine, std::function<void(std::size_t)> on_step) {
  absl::StatusOr<Program> program = LowerSchedule(graphs, schedule, machine);
  if (!program.ok()) return program.status();
  std::unique_ptr<FixedIteration> iteration(new FixedIteration(graphs, *std::move(program)));
  FixedIteration& self = *iteration;
  if (absl::Status status = self.MakeDevices(device, schedule, machine); !status.ok()) {
    return status;
  }
  std::vector<Device*> devices;
  for (const auto& one : self.devices_) devices.push_back(one.get());
  if (device == "host") {
    if (absl::Status status = self.MakeCompressor(schedule, machine); !status.ok()) return status;
  }
  CopyCompressed copy_compressed = nullptr;
  if (self.compressor_ != nullptr) {
    copy_compressed = [&self](const CompressedCopy& copy) { return self.compressor_->Copy(copy); };
  }
  absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::CreateFixed(
      devices, graphs, schedule, machine,
      [&self](const TaskLaunch& launch) { return self.Launch(launch); },
      [&self](const HomeFill& fill) { return self.Fill(fill); },
      {.measures = true,
       .on_step = std::move(on_step),
       .copy_compressed = std::move(copy_compressed),
       .add_received = [&self](const ReceivedGradient& gradient) { return self.Add(gradient); }});
  if (!executor.ok()) return executor.status();
  self.executor_ = *std::move(executor);
  return iteration;
}

absl::Status FixedIteration::MakeDevices(const std::string& device, const Schedule& schedule,
                                         const Machine& machine) {
  if (device == "cuda" && schedule.devices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: the schedule has ", schedule.devices,
                     " devices, and cuda has one GPU; expected --device host"));
  }
  for (std::size_t i = 0; i < schedule.devices; ++i) {
    absl::StatusOr<std::unique_ptr<Device>> made =
        device == "cuda" ? MakeCudaDevice() : MakeHostDeviceOf(machine, i, program_.pool_bytes[i]);
    if (!made.ok()) return made.status();
    devices_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::Status FixedIteration::MakeCompressor(const Schedule& schedule, const Machine& machine) {
  double density = -1;
  for (const ScheduleStep& step : schedule.steps) density = std::max(density, step.density);
  if (density < 0) return absl::OkStatus();
  words_ = WordsOfDensity(density);
  std::vector<Device*> devices;
  devices.reserve(devices_.size());
  for (const auto& one : devices_) devices.push_back(one.get());
  absl::StatusOr<std::unique_ptr<HostCompressor>> made = HostCompressor::Create(devices, machine);
  if (!made.ok()) return made.status();
  compressor_ = *std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<Timeline> FixedIteration::Run() {
  next_ = 0;
  absl::StatusOr<Timeline> timeline = executor_->Run();
  is_first_ = false;
  return timeline;
}

// Spends the seconds of the program's next task in the stream: launches come in its order.
absl::Status FixedIteration::Launch(const TaskLaunch& launch) {
  if (is_first_ && words_ != nullptr) {
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
  absl::Status status;
  for (std::size_t i = 0; i < writes.size() && status.ok(); ++i) {
    status = DeviceOf(launch).CallHost(
        launch.stream, [words = words_, to = launch.writes[i],
                        bytes = graph.data[writes[i]].bytes] { FillWithWords(words, to, bytes); });
  }
  return status;
}

absl::Status FixedIteration::Fill(const HomeFill& fill) {
  Device& device = *devices_[fill.device];
  if (words_ != nullptr) {
    return device.CallHost(fill.stream,
                           [words = words_, address = fill.address, bytes = fill.bytes] {
                             FillWithWords(words, address, bytes);
                           });
  }
  if (!fill.is_on_host) return device.Fill(fill.address, 0, fill.bytes, fill.stream);
  return device.CallHost(fill.stream, [address = fill.address, bytes = fill.bytes] {
    std::memset(address, 0, static_cast<std::size_t>(bytes));
  });
}

}  // namespace tidepool::tool
