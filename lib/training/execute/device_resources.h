// SPDX-License-Identifier: Apache-2.0
// All that a program takes of devices: memory, host memory, streams and events.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/device.h"
#include "tidepool/training/program.h"

namespace tidepool::execute {

// Not thread-safe. Gives everything back at the end; objects that a device refuses to take back are
// lost, because no caller could act on the error.
class DeviceResources {
 public:
  explicit DeviceResources(absl::Span<Device* const> devices)
      : devices_(devices.begin(), devices.end()) {}
  // No work is queued any more.
  ~DeviceResources();
  DeviceResources(const DeviceResources&) = delete;
  DeviceResources& operator=(const DeviceResources&) = delete;

  // Takes one range of each device, at a multiple of `alignment`, a power of two, and one area on
  // the host.
  absl::Status TakeMemory(const Program& program, std::int64_t alignment, std::int64_t host_bytes);
  // Creates the streams that have operations.
  absl::Status CreateStreams(const Program& program);
  // Creates events on these devices.
  absl::Status CreateEvents(const std::vector<std::size_t>& devices);

  const std::vector<std::byte*>& memory() const { return memory_; }  // by device
  std::byte* host() const { return host_; }
  // By stream of the program; Stream() without operations.
  const std::vector<Stream>& streams() const { return streams_; }
  Device& device_of(std::size_t stream) const { return *devices_[stream_devices_[stream]]; }
  Event event(std::size_t number) const { return events_[number]; }

 private:
  const std::vector<Device*> devices_;
  std::vector<void*> allocations_;  // by device
  std::vector<std::byte*> memory_;
  std::byte* host_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<std::size_t> stream_devices_;
  std::vector<Event> events_;
  std::vector<std::size_t> event_devices_;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_DEVICE_RESOURCES_H_
