// SPDX-License-Identifier: Apache-2.0
// Memory of a buffer: counted while it exists, given back by the destructor.
#include "lib/copies/offload/buffer_memory.h"

#include <algorithm>
#include <utility>

#include "lib/memory/device/owned.h"

namespace tidepool::offload {

DeviceMemory::DeviceMemory(const DeviceSource& source, void* address, std::int64_t bytes,
                           Stream home)
    : source_(source), address_(address), bytes_(bytes), home_(home) {
  source_.holdings.device_bytes += bytes_;
}

DeviceMemory::~DeviceMemory() {
  SetLeaving(false);
  source_.holdings.device_bytes -= bytes_;
  // The offloader's own streams exist, so the pool accepts them.
  if (last_out_ != 0) source_.pool.RecordUse(address_, source_.out).IgnoreError();
  if (is_coming_) source_.pool.RecordUse(address_, source_.in).IgnoreError();
  // The address came from the pool, so Free fails only if the home stream was destroyed.
  if (!FreeAtHome().ok()) FreeWithoutHome().IgnoreError();
}

absl::Status DeviceMemory::FreeAtHome() { return source_.pool.Free(address_, home_); }

// Frees on the offloader's stream when the home stream was destroyed. CUDA still records events on
// such a stream, so the offloader's stream can wait for its work.
absl::Status DeviceMemory::FreeWithoutHome() {
  const auto event = device::OwnedEvent::Record(source_.device, home_);
  absl::Status status = event.status();
  if (status.ok()) status = source_.device.WaitEvent(source_.out, event->get());
  return status.ok() ? source_.pool.Free(address_, source_.out) : status;
}

absl::Status DeviceMemory::AddUser(Stream stream) {
  if (stream == home_ || std::find(users_.begin(), users_.end(), stream) != users_.end()) {
    return absl::OkStatus();
  }
  absl::Status status = source_.pool.RecordUse(address_, stream);
  if (status.ok()) users_.push_back(stream);
  return status;
}

void DeviceMemory::SetLeaving(bool is_leaving) {
  if (is_leaving == is_leaving_) return;
  is_leaving_ = is_leaving;
  source_.holdings.leaving_bytes += is_leaving ? bytes_ : -bytes_;
}

HostMemory::HostMemory(Holdings& holdings, PinnedPool& pool, void* address, std::int64_t bytes)
    : holdings_(holdings), pool_(&pool), address_(address), bytes_(bytes) {
  Count();
}

HostMemory::HostMemory(Holdings& holdings, std::shared_ptr<const StoredBuffer> stored)
    : holdings_(holdings), stored_(std::move(stored)), bytes_(stored_->held_bytes()) {
  Count();
}

void HostMemory::Count() {
  holdings_.host_bytes += bytes_;
  holdings_.peak_host_bytes = std::max(holdings_.peak_host_bytes, holdings_.host_bytes);
}

HostMemory::~HostMemory() {
  holdings_.host_bytes -= bytes_;
  // The address came from the pool, so Free does not fail.
  if (pool_ != nullptr) pool_->Free(address_).IgnoreError();
}

}  // namespace tidepool::offload
