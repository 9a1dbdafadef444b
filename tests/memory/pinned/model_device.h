// SPDX-License-Identifier: Apache-2.0
// A host device that knows which memory is registered with it.
#ifndef TIDEPOOL_TESTS_MEMORY_PINNED_MODEL_DEVICE_H_
#define TIDEPOOL_TESTS_MEMORY_PINNED_MODEL_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tests/support/forwarding_device.h"
#include "tidepool/host_device.h"

namespace tidepool::testing {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;

class ModelDevice final : public ForwardingDevice {
 public:
  explicit ModelDevice(
      std::unique_ptr<HostDevice> host = *HostDevice::Create({.memory_bytes = kMiB}))
      : ForwardingDevice(*host), host_(std::move(host)) {}

  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    absl::Status status = ForwardingDevice::RegisterHostMemory(address, bytes);
    const std::lock_guard lock(mutex_);
    if (status.ok()) regions_[static_cast<char*>(address)] = bytes;
    return status;
  }
  absl::Status UnregisterHostMemory(void* address) override {
    absl::Status status = ForwardingDevice::UnregisterHostMemory(address);
    const std::lock_guard lock(mutex_);
    if (status.ok()) regions_.erase(static_cast<char*>(address));
    return status;
  }

  HostDevice& host() { return *host_; }
  // Returns the sizes of the registered regions by address.
  std::map<char*, std::int64_t> regions() const {
    const std::lock_guard lock(mutex_);
    return regions_;
  }
  std::int64_t registered_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [address, region_bytes] : regions()) bytes += region_bytes;
    return bytes;
  }

 private:
  std::unique_ptr<HostDevice> host_;
  mutable std::mutex mutex_;
  std::map<char*, std::int64_t> regions_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_MEMORY_PINNED_MODEL_DEVICE_H_
