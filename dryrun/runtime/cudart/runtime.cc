// SPDX-License-Identifier: Apache-2.0
// Replaces devices as a whole, so that a reset leaves nothing of the old device.
#include "dryrun/runtime/cudart/runtime.h"

#include <cstdlib>
#include <utility>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/settings.h"

namespace tidepool::cudart_host {

Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime();
  return *runtime;
}

ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

Runtime::Runtime() {
  Configure(ConfigOfEnvironment());
  OrderFaultsOfEnvironment(counts);
  std::atexit([] { Get().EndIfIdle(); });
}

void Runtime::EndIfIdle() {
  if (RefuseForked() != cudaSuccess) return;  // the threads of the streams are the parent's
  std::vector<std::shared_ptr<StandInDevice>> devices;
  {
    const locks::MutexLock lock(&mutex_);
    devices = devices_;
  }
  for (const std::shared_ptr<StandInDevice>& device : devices) {
    if (!device->IsAllIdle()) return;
  }
  has_ended_ = true;
  {
    const locks::MutexLock lock(&mutex_);
    devices_.clear();
    device_count_ = 0;
  }
  for (const std::shared_ptr<StandInDevice>& device : devices) DropAllOf(device);
}

std::shared_ptr<StandInDevice> Runtime::FindDevice(int ordinal) const {
  const locks::MutexLock lock(&mutex_);
  if (ordinal < 0 || ordinal >= static_cast<int>(devices_.size())) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)];
}

CudartHostConfig Runtime::config() const {
  const locks::MutexLock lock(&mutex_);
  return config_;
}

std::shared_ptr<StandInDevice> Runtime::CurrentDevice() const {
  return FindDevice(ThisThread().current());
}

void Runtime::ResetDevice(int ordinal) {
  auto fresh = std::make_shared<StandInDevice>(ordinal, config());
  std::shared_ptr<StandInDevice> old;
  {
    const locks::MutexLock lock(&mutex_);
    old = std::exchange(devices_[static_cast<std::size_t>(ordinal)], std::move(fresh));
  }
  DropAllOf(old);
}

void Runtime::Configure(const CudartHostConfig& config) {
  std::vector<std::shared_ptr<StandInDevice>> fresh;
  fresh.reserve(static_cast<std::size_t>(config.devices));
  for (int i = 0; i < config.devices; ++i) {
    fresh.push_back(std::make_shared<StandInDevice>(i, config));
  }
  {
    const locks::MutexLock lock(&mutex_);
    config_ = config;
    devices_.swap(fresh);
    device_count_ = config.devices;
  }
  for (const std::shared_ptr<StandInDevice>& old : fresh) DropAllOf(old);
  pools.RemoveIf([](const MemoryPool&) { return true; });
  captures.Clear();
  graphs.RemoveIf([](const auto&) { return true; });
  graph_execs.RemoveIf([](const auto&) { return true; });
  counts.Clear();
  kernels.Clear();
  spins = 0;
  known.ForgetAll();
  ThisThread() = ThreadState();
}

// Destroys in the order of dependency: first work, then the objects that work uses.
void Runtime::DropAllOf(const std::shared_ptr<StandInDevice>& device) {
  device->host().ReleaseCopies();
  device->SynchronizeAll().IgnoreError();
  streams.RemoveIf([&](const StreamRef& stream) { return stream.device == device; });
  events.RemoveIf([&](const auto& event) { return event->device == device; });
  physical_handles.RemoveIf(
      [&](const PhysicalHandle& handle) { return handle.physical->device == device; });
  for (const Region& region :
       memory.RemoveIf([&](const Region& each) { return each.device == device; })) {
    if (region.kind == MemoryKind::kMapped) device->host().Unmap(region.address).IgnoreError();
  }
  const locks::MutexLock lock(&reservations_mutex);
  std::erase_if(reservations, [&](const Reservation& each) { return each.device == device; });
}

std::optional<StreamRef> Runtime::FindStream(cudaStream_t handle) {
  if (handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread) {
    return streams.Find(reinterpret_cast<std::uintptr_t>(handle));
  }
  const std::shared_ptr<StandInDevice> device = CurrentDevice();
  if (device == nullptr) return std::nullopt;
  if (handle != cudaStreamPerThread) {
    return StreamRef{device, device->legacy_stream(), StreamKind::kLegacy};
  }
  const absl::StatusOr<Stream> stream = device->PerThreadStream();
  if (!stream.ok()) return std::nullopt;
  return StreamRef{device, *stream, StreamKind::kBlocking};
}

}  // namespace tidepool::cudart_host
