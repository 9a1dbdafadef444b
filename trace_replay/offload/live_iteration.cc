// SPDX-License-Identifier: Apache-2.0
// Tasks spend their time on the device. On the host they may write data of some densities too.
#include "trace_replay/offload/live_iteration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/host_device.h"
#include "trace_replay/replay/cuda_devices.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kSlotBytes = std::int64_t{1} << 20;

std::int64_t InPages(std::int64_t bytes) { return (bytes + kPage - 1) & -kPage; }

template <typename T>
absl::Status Keep(absl::StatusOr<std::unique_ptr<T>> made, std::unique_ptr<T>& kept) {
  if (!made.ok()) return made.status();
  kept = *std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> MakeHostDevice(const Machine& machine) {
  const MachineDevice& device = machine.devices.front();
  const MachineLink& link = machine.links[device.link];
  HostDeviceOptions options;
  options.memory_bytes = (device.memory_bytes + options.granularity - 1) & -options.granularity;
  const double rate = link.out_bytes_per_second;
  options.copy_bytes_per_second = std::isinf(rate) ? 0 : rate;
  options.copy_latency_ns = static_cast<std::int64_t>(link.latency_seconds * 1e9);
  return HostDevice::Create(options);
}

bool IsWritten(const TaskGraph& graph, std::size_t data) {
  return std::any_of(graph.tasks.begin(), graph.tasks.end(), [&](const GraphTask& task) {
    return std::find(task.writes.begin(), task.writes.end(), data) != task.writes.end();
  });
}

// Data that begins on the host is filled there.
absl::Status FillAtHome(Device& device, const TaskGraph& graph, std::size_t data,
                        std::uint8_t value, void* address, Stream stream) {
  const std::int64_t bytes = graph.data[data].bytes;
  if (graph.data[data].before != DataHome::kHost || IsWritten(graph, data)) {
    return device.Fill(address, value, bytes, stream);
  }
  return device.CallHost(stream,
                         [=] { std::memset(address, value, static_cast<std::size_t>(bytes)); });
}

bool Compresses(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const ScheduleStep& step) { return step.density >= 0; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveIteration>> LiveIteration::Create(
    const LiveIterationOptions& options, const TaskGraph& graph, const Timeline& simulated) {
  std::unique_ptr<LiveIteration> iteration(new LiveIteration);
  if (absl::Status status = iteration->Start(options, graph, simulated); !status.ok()) {
    return status;
  }
  return iteration;
}

absl::StatusOr<Timeline> LiveIteration::Run() {
  if (sparse_tasks_ != nullptr) sparse_tasks_->BeginIteration();
  return executor_->Run();
}

absl::Status LiveIteration::Start(const LiveIterationOptions& options, const TaskGraph& graph,
                                  const Timeline& simulated) {
  const bool is_host = options.device == "host";
  const bool may_compress = options.probe_every > 0 || Compresses(simulated.resolved);
  absl::Status status = Keep(is_host ? MakeHostDevice(options.machine) : MakeCudaDevice(), device_);
  if (status.ok()) status = MakePools(options, simulated);
  if (status.ok() && may_compress) status = MakePipeline(options, simulated);
  if (!status.ok()) return status;
  OffloaderOptions offloading;
  offloading.release = OffloaderOptions::Release::kWhenAwaited;
  const Machine& machine = options.machine;
  offloading.one_transfer_at_a_time = !machine.links[machine.devices.front().link].full_duplex;
  offloading.pipeline = pipeline_.get();
  status = Keep(Offloader::Create(device_.get(), pool_.get(), host_.get(), offloading), offloader_);
  return status.ok() ? MakeExecutor(options, graph, simulated) : status;
}

absl::Status LiveIteration::MakeExecutor(const LiveIterationOptions& options,
                                         const TaskGraph& graph, const Timeline& simulated) {
  // Inputs have no zeros where densities count.
  const std::uint8_t value = options.densities.empty() ? 0 : 1;
  const FillData fill = [this, &graph, value](std::size_t data, void* address, Stream stream) {
    return FillAtHome(*device_, graph, data, value, address, stream);
  };
  return Keep(Executor::Create(device_.get(), offloader_.get(), graph, simulated.resolved,
                               TasksOf(options, graph), fill,
                               {.measures = true,
                                .on_step = options.on_step,
                                .probe_every = options.probe_every,
                                .on_density = options.on_density}),
              executor_);
}

LaunchTask LiveIteration::TasksOf(const LiveIterationOptions& options, const TaskGraph& graph) {
  if (options.densities.empty()) return SleepingTasks(device_.get(), graph, 1);
  sparse_tasks_ = std::make_unique<SparseTasks>(device_.get(), graph, options.densities);
  return [this](const TaskLaunch& launch) { return sparse_tasks_->Launch(launch); };
}

absl::Status LiveIteration::MakePools(const LiveIterationOptions& options,
                                      const Timeline& simulated) {
  PoolOptions pool;
  pool.max_bytes = options.machine.devices.front().memory_bytes & -options.placing.alignment;
  pool.initial_bytes = pool.max_bytes;
  pool.alignment = options.placing.alignment;
  pool.placement = options.placing.placement;
  pool.most_plans = 0;
  pool.plan = simulated.plan;
  absl::Status status = Keep(Pool::Create(device_.get(), pool), pool_);
  if (!status.ok()) return status;
  PinnedPoolOptions host;
  const std::int64_t most_raw =
      options.probe_every > 0 ? simulated.bytes_out : simulated.peak_host_bytes;
  // The pinned pool rounds each buffer up to 512 bytes.
  host.max_bytes = InPages(std::max(most_raw, kPage)) +
                   InPages(static_cast<std::int64_t>(simulated.resolved.steps.size()) * 512);
  return Keep(PinnedPool::Create(device_.get(), host), host_);
}

absl::Status LiveIteration::MakePipeline(const LiveIterationOptions& options,
                                         const Timeline& simulated) {
  CompressionPipelineOptions pipeline;
  pipeline.ring.slot_bytes = kSlotBytes;
  pipeline.threads = options.placing.compression_threads;
  PinnedPoolOptions staging;
  staging.max_bytes = 2 * pipeline.ring.slots * pipeline.ring.slot_bytes + (kPage << 4);
  absl::Status status = Keep(PinnedPool::Create(device_.get(), staging), staging_);
  if (!status.ok()) return status;
  PagePoolOptions pages;
  pages.max_bytes =
      InPages(simulated.bytes_out) + simulated.bytes_out / 8 + (std::int64_t{1} << 20);
  status = Keep(PagePool::Create(pages), pages_);
  if (!status.ok()) return status;
  return Keep(CompressionPipeline::Create(device_.get(), staging_.get(), pages_.get(), pipeline),
              pipeline_);
}

}  // namespace tidepool::tool
