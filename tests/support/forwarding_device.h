// SPDX-License-Identifier: Apache-2.0
// Forwards every call to another device, so that a test can override some of them.
#ifndef TIDEPOOL_TESTS_SUPPORT_FORWARDING_DEVICE_H_
#define TIDEPOOL_TESTS_SUPPORT_FORWARDING_DEVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tidepool/device.h"

namespace tidepool::testing {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& device) : device_(device) {}

  std::string name() const override { return device_.name(); }
  std::int64_t memory_bytes() const override { return device_.memory_bytes(); }
  std::int64_t used_bytes() const override { return device_.used_bytes(); }
  absl::StatusOr<Stream> CreateStream() override { return device_.CreateStream(); }
  absl::Status DestroyStream(Stream stream) override {
    absl::Status status = device_.DestroyStream(stream);
    AdvanceStreamEpoch();
    return status;
  }
  bool HasStream(Stream stream) const override { return device_.HasStream(stream); }
  absl::Status SynchronizeStream(Stream stream) override {
    return device_.SynchronizeStream(stream);
  }
  absl::StatusOr<Event> CreateEvent(EventKind kind = EventKind::kOrder) override {
    return device_.CreateEvent(kind);
  }
  absl::Status DestroyEvent(Event event) override { return device_.DestroyEvent(event); }
  absl::Status RecordEvent(Event event, Stream stream) override {
    return device_.RecordEvent(event, stream);
  }
  bool MayEnd(Stream stream) const override { return device_.MayEnd(stream); }
  absl::Status CheckNoCapture(Stream stream) const override {
    return device_.CheckNoCapture(stream);
  }
  absl::Status RecordAll(Event event) override { return device_.RecordAll(event); }
  absl::Status WaitEvent(Stream stream, Event event) override {
    return device_.WaitEvent(stream, event);
  }
  absl::StatusOr<bool> QueryEvent(Event event) override { return device_.QueryEvent(event); }
  absl::Status SynchronizeEvent(Event event) override { return device_.SynchronizeEvent(event); }
  absl::StatusOr<double> SecondsBetween(Event first, Event second) override {
    return device_.SecondsBetween(first, second);
  }
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    return device_.Copy(to, from, bytes, direction, stream);
  }
  absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) override {
    return device_.Fill(to, value, bytes, stream);
  }
  absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) override {
    return device_.SpendTime(stream, nanoseconds);
  }
  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    return device_.CallHost(stream, std::move(function));
  }
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    return device_.AllocateMemory(bytes);
  }
  absl::Status FreeMemory(void* address) override { return device_.FreeMemory(address); }
  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override {
    return device_.AllocatePinned(bytes);
  }
  absl::Status FreePinned(void* address) override { return device_.FreePinned(address); }
  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    return device_.RegisterHostMemory(address, bytes);
  }
  absl::Status UnregisterHostMemory(void* address) override {
    return device_.UnregisterHostMemory(address);
  }
  std::int64_t granularity() const override { return device_.granularity(); }
  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) override {
    return device_.ReserveAddresses(bytes);
  }
  absl::Status ReleaseAddresses(void* address, std::int64_t bytes) override {
    return device_.ReleaseAddresses(address, bytes);
  }
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    return device_.CreatePhysical(bytes);
  }
  absl::Status ReleasePhysical(PhysicalMemory memory) override {
    return device_.ReleasePhysical(memory);
  }
  absl::Status Map(void* address, PhysicalMemory memory) override {
    return device_.Map(address, memory);
  }
  absl::Status Unmap(void* address) override { return device_.Unmap(address); }

 private:
  Device& device_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_FORWARDING_DEVICE_H_
