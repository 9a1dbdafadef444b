// SPDX-License-Identifier: Apache-2.0
// A device on which all work takes exactly its nominal time. Queued work gets its start and end at
// once, from the clocks of its stream, of the events that it waits for and of the host, and runs at
// once. The host spends time only while it waits. Devices may share a clock, and then wait for each
// other's events. For a single thread.
#ifndef TIDEPOOL_TESTS_SUPPORT_VIRTUAL_CLOCK_DEVICE_H_
#define TIDEPOOL_TESTS_SUPPORT_VIRTUAL_CLOCK_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "lib/memory/device/host/host_backing.h"
#include "lib/memory/device/host/memory_budget.h"
#include "lib/memory/device/virtual_memory.h"
#include "tidepool/device.h"

namespace tidepool::testing {

struct VirtualClockOptions {
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  double out_bytes_per_second = std::numeric_limits<double>::infinity();
  double in_bytes_per_second = std::numeric_limits<double>::infinity();
  double latency_seconds = 0;  // a delay in front of each copy
  // Of addresses with memory, made of the host's pages; 0: the device has no virtual memory.
  std::int64_t granularity = 0;
};

// The time of the host, and of all events that were recorded.
struct VirtualClock {
  double host = 0;
  std::optional<double> function_time;
  std::map<std::uint64_t, std::optional<double>> events;

  // Returns the host's clock; in a host function, the clock of its stream.
  double now() const { return function_time.value_or(host); }
};

class VirtualClockDevice final : public Device {
 public:
  explicit VirtualClockDevice(
      const VirtualClockOptions& options,
      std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>())
      : options_(options), clock_(std::move(clock)), budget_(options.memory_bytes) {
    if (options.granularity == 0) return;
    virtual_memory_ = std::make_unique<device::VirtualMemory>(
        options.granularity, host::MakeHostBacking(options.granularity, &budget_).value());
  }

  double now() const { return clock_->now(); }
  // Queues work that takes a number of seconds.
  void Work(Stream stream, double seconds) { streams_.at(stream.id) = Begin(stream) + seconds; }

  std::string name() const override { return "virtual clock"; }
  std::int64_t memory_bytes() const override { return options_.memory_bytes; }
  std::int64_t used_bytes() const override { return budget_.used_bytes(); }

  absl::StatusOr<Stream> CreateStream() override {
    const Stream stream = {TakeDeviceNames(1)};
    streams_[stream.id] = 0;
    return stream;
  }
  absl::Status DestroyStream(Stream stream) override {
    absl::Status status = Known(streams_, stream.id);
    if (!status.ok()) return status;
    destroyed_[stream.id] = streams_.at(stream.id);
    streams_.erase(stream.id);
    AdvanceStreamEpoch();
    return status;
  }
  bool HasStream(Stream stream) const override { return streams_.contains(stream.id); }
  absl::Status SynchronizeStream(Stream stream) override {
    absl::Status status = Known(streams_, stream.id);
    if (status.ok()) clock_->host = std::max(clock_->host, streams_.at(stream.id));
    return status;
  }

  absl::StatusOr<Event> CreateEvent(EventKind /*kind*/ = EventKind::kOrder) override {
    const Event event = {TakeDeviceNames(1)};
    clock_->events[event.id] = std::nullopt;
    return event;
  }
  absl::Status DestroyEvent(Event event) override {
    absl::Status status = Known(clock_->events, event.id);
    clock_->events.erase(event.id);
    return status;
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    absl::Status status = Known(clock_->events, event.id);
    if (!status.ok()) return status;
    const auto gone = destroyed_.find(stream.id);
    if (gone == destroyed_.end()) status = Known(streams_, stream.id);
    if (!status.ok()) return status;
    clock_->events.at(event.id) = gone == destroyed_.end() ? Begin(stream) : gone->second;
    return status;
  }
  absl::Status RecordAll(Event event) override {
    absl::Status status = Known(clock_->events, event.id);
    if (!status.ok()) return status;
    double end = 0;
    for (const auto& [name, tail] : streams_) end = std::max(end, tail);
    for (const auto& [name, tail] : destroyed_) end = std::max(end, tail);
    clock_->events.at(event.id) = end;
    return status;
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    absl::Status status = Known(streams_, stream.id);
    if (status.ok()) status = Known(clock_->events, event.id);
    if (!status.ok()) return status;
    double& tail = streams_.at(stream.id);
    tail = std::max(tail, clock_->events.at(event.id).value_or(0));
    return status;
  }
  absl::StatusOr<bool> QueryEvent(Event event) override {
    if (absl::Status status = Known(clock_->events, event.id); !status.ok()) return status;
    return clock_->events.at(event.id).value_or(0) <= clock_->host;
  }
  absl::Status SynchronizeEvent(Event event) override {
    absl::Status status = Known(clock_->events, event.id);
    if (!status.ok()) return status;
    clock_->host = std::max(clock_->host, clock_->events.at(event.id).value_or(0));
    return status;
  }
  absl::StatusOr<double> SecondsBetween(Event first, Event second) override {
    absl::Status status = Known(clock_->events, first.id);
    if (status.ok()) status = Known(clock_->events, second.id);
    if (!status.ok()) return status;
    const std::optional<double> begin = clock_->events.at(first.id);
    const std::optional<double> end = clock_->events.at(second.id);
    if (begin.has_value() && end.has_value()) return *end - *begin;
    return absl::FailedPreconditionError("an event has no time, expected recorded events");
  }

  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    absl::Status status = Known(streams_, stream.id);
    if (!status.ok()) return status;
    const double rate = direction == CopyDirection::kFromDevice ? options_.out_bytes_per_second
                                                                : options_.in_bytes_per_second;
    Work(stream, options_.latency_seconds + static_cast<double>(bytes) / rate);
    std::memmove(to, from, static_cast<std::size_t>(bytes));
    return status;
  }
  absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) override {
    absl::Status status = Known(streams_, stream.id);
    if (status.ok()) std::memset(to, value, static_cast<std::size_t>(bytes));
    return status;
  }
  absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) override {
    absl::Status status = Known(streams_, stream.id);
    if (status.ok()) Work(stream, static_cast<double>(nanoseconds) / 1e9);
    return status;
  }
  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    absl::Status status = Known(streams_, stream.id);
    if (!status.ok()) return status;
    clock_->function_time = streams_.at(stream.id) = Begin(stream);
    function();
    clock_->function_time = std::nullopt;
    return status;
  }

  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    if (absl::Status status = budget_.Take(bytes); !status.ok()) return status;
    return Allocate(bytes);
  }
  absl::Status FreeMemory(void* address) override {
    budget_.Return(memory_.at(address).second);
    return FreePinned(address);
  }
  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override { return Allocate(bytes); }
  absl::Status FreePinned(void* address) override {
    return memory_.erase(address) == 1 ? absl::OkStatus() : absl::NotFoundError("no such memory");
  }
  absl::Status RegisterHostMemory(void* /*address*/, std::int64_t /*bytes*/) override {
    return absl::OkStatus();
  }
  absl::Status UnregisterHostMemory(void* /*address*/) override { return absl::OkStatus(); }

  std::int64_t granularity() const override { return options_.granularity; }
  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) override {
    return virtual_memory_->ReserveAddresses(bytes);
  }
  absl::Status ReleaseAddresses(void* address, std::int64_t bytes) override {
    return virtual_memory_->ReleaseAddresses(address, bytes);
  }
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    return virtual_memory_->CreatePhysical(bytes);
  }
  absl::Status ReleasePhysical(PhysicalMemory memory) override {
    return virtual_memory_->ReleasePhysical(memory);
  }
  absl::Status Map(void* address, PhysicalMemory memory) override {
    return virtual_memory_->Map(address, memory);
  }
  absl::Status Unmap(void* address) override { return virtual_memory_->Unmap(address); }

 private:
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  static constexpr std::align_val_t kAlignment{512};

  template <typename Value>
  static absl::Status Known(const std::map<std::uint64_t, Value>& names, std::uint64_t name) {
    return names.contains(name) ? absl::OkStatus() : absl::NotFoundError("no such name");
  }
  double Begin(Stream stream) const { return std::max(streams_.at(stream.id), clock_->host); }
  void* Allocate(std::int64_t bytes) {
    auto* const memory =
        static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment));
    memory_[memory] = {std::unique_ptr<std::byte, Release>(memory), bytes};
    return memory;
  }

  const VirtualClockOptions options_;
  const std::shared_ptr<VirtualClock> clock_;
  std::map<std::uint64_t, double> streams_;  // when all work queued so far ends
  std::map<std::uint64_t, double> destroyed_;
  std::map<void*, std::pair<std::unique_ptr<std::byte, Release>, std::int64_t>> memory_;
  host::MemoryBudget budget_;
  std::unique_ptr<device::VirtualMemory> virtual_memory_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_VIRTUAL_CLOCK_DEVICE_H_
