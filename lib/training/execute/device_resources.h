// SPDX-License-Identifier: Apache-2.0
// All that programs take of devices: memory, host memory and streams. Objects that a device
// refuses to take back are lost, because no caller could act on the error. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/memory/device/owned.h"
#include "lib/training/execute/paged_memory.h"
#include "tidepool/device.h"
#include "tidepool/training/program.h"

namespace tidepool::execute {

// Memory and streams of devices, which one program after another may use.
class DeviceResources {
 public:
  explicit DeviceResources(absl::Span<Device* const> devices)
      : devices_(devices.begin(), devices.end()) {}
  // No work is queued any more.
  ~DeviceResources();
  DeviceResources(const DeviceResources&) = delete;
  DeviceResources& operator=(const DeviceResources&) = delete;

  // Takes one range of each device, at a multiple of `alignment`, a power of two; of a program with
  // pages the addresses and the pages. Called once.
  absl::Status TakeMemory(const Program& program, std::int64_t alignment);
  // Returns ResourceExhausted unless the memory that was taken suffices for another program, and
  // InvalidArgument for one with pages, or after one.
  absl::Status CheckMemory(const Program& program, std::int64_t alignment) const;
  // Makes memory ready for an iteration. Data at home stays after an iteration that ended well, of
  // which `follows` tells. No work is queued.
  absl::Status BeginIteration(bool follows);
  // Creates the streams that have operations, and keeps those that exist. All programs have the
  // same list of streams.
  absl::Status CreateStreams(const Program& program);

  const std::vector<Device*>& devices() const { return devices_; }
  // By device: the address of offset 0.
  const std::vector<std::byte*>& memory() const { return memory_; }
  // By stream of the program; Stream() without operations so far.
  const std::vector<Stream>& streams() const { return streams_; }
  Device& device_of(std::size_t stream) const { return *devices_[stream_devices_[stream]]; }

 private:
  absl::Status TakePages(const Program& program);

  const std::vector<Device*> devices_;
  std::vector<void*> allocations_;                   // by device
  std::vector<std::unique_ptr<PagedMemory>> pages_;  // by device; empty without pages
  std::vector<std::byte*> memory_;
  std::vector<std::int64_t> bytes_;
  std::int64_t alignment_ = 0;
  std::vector<device::OwnedStream> owned_streams_;
  std::vector<Stream> streams_;
  std::vector<std::size_t> stream_devices_;
};

// Page-locked memory of the host.
class HostArea {
 public:
  static absl::StatusOr<std::shared_ptr<HostArea>> Take(Device& device, std::int64_t bytes);
  ~HostArea();
  HostArea(const HostArea&) = delete;
  HostArea& operator=(const HostArea&) = delete;

  std::byte* memory() const { return memory_; }  // null without bytes
  std::int64_t bytes() const { return bytes_; }

 private:
  HostArea(Device& device, std::int64_t bytes) : device_(device), bytes_(bytes) {}

  Device& device_;
  const std::int64_t bytes_;
  std::byte* memory_ = nullptr;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_
