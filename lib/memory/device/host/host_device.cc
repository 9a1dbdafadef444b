// SPDX-License-Identifier: Apache-2.0
// Composes the device of its parts. This file counts calls, lets them fail on order and puts their
// names into errors; the parts do the work.
#include "tidepool/host_device.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/host/allocations.h"
#include "lib/memory/device/host/call_faults.h"
#include "lib/memory/device/host/copy_engine.h"
#include "lib/memory/device/host/copy_gate.h"
#include "lib/memory/device/host/events.h"
#include "lib/memory/device/host/host_backing.h"
#include "lib/memory/device/host/memory_budget.h"
#include "lib/memory/device/host/registrations.h"
#include "lib/memory/device/host/streams.h"
#include "lib/memory/device/host/work_queue.h"
#include "lib/memory/device/virtual_memory.h"

namespace tidepool {
namespace host {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

template <typename Value>
absl::Status InvalidOption(const char* name, Value value, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("HostDeviceOptions: ", name, " is ", value, ", expected ", expected));
}

absl::Status Check(const HostDeviceOptions& options) {
  if (options.memory_bytes <= 0)
    return InvalidOption("memory_bytes", options.memory_bytes, "at least 1");
  if (options.granularity < 0 || (options.granularity & (options.granularity - 1)) != 0) {
    return InvalidOption("granularity", options.granularity, "a power of two or 0");
  }
  if (options.granularity % sysconf(_SC_PAGESIZE) != 0) {
    return InvalidOption("granularity", options.granularity, "a multiple of the host's page");
  }
  if (!std::isfinite(options.copy_bytes_per_second) || options.copy_bytes_per_second < 0) {
    return InvalidOption("copy_bytes_per_second", options.copy_bytes_per_second,
                         "a finite number of at least 0");
  }
  if (options.copy_latency_ns < 0)
    return InvalidOption("copy_latency_ns", options.copy_latency_ns, "at least 0");
  return absl::OkStatus();
}

class HostDeviceOfThreads final : public HostDevice {
 public:
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(const HostDeviceOptions& options) {
    auto budget = std::make_unique<MemoryBudget>(options.memory_bytes);
    std::unique_ptr<device::VirtualMemory> virtual_memory;
    if (options.granularity > 0) {
      auto backing = MakeHostBacking(options.granularity, budget.get());
      if (!backing.ok()) return backing.status();
      virtual_memory =
          std::make_unique<device::VirtualMemory>(options.granularity, *std::move(backing));
    }
    std::unique_ptr<AddressArena> arena;
    if (options.addresses != AddressOrder::kHost) {
      auto created = AddressArena::Create(options.memory_bytes, options.addresses);
      if (!created.ok()) return created.status();
      arena = *std::move(created);
    }
    return std::unique_ptr<HostDevice>(new HostDeviceOfThreads(
        options, std::move(budget), std::move(arena), std::move(virtual_memory)));
  }

  // Nothing may keep the streams from finishing: they are destroyed first, and run all queued work.
  ~HostDeviceOfThreads() override {
    gate_.Release();
    to_device_.StopTime();
    from_device_.StopTime();
  }

  std::string name() const override { return "host"; }
  std::int64_t memory_bytes() const override { return budget_->total_bytes(); }
  std::int64_t used_bytes() const override { return budget_->used_bytes(); }
  std::int64_t granularity() const override {
    return virtual_memory_ == nullptr ? 0 : virtual_memory_->granularity();
  }

  absl::StatusOr<Stream> CreateStream() override {
    return Run(Call::kCreateStream, [&]() -> absl::StatusOr<Stream> { return streams_.Create(); });
  }

  absl::Status DestroyStream(Stream stream) override {
    return Run(Call::kDestroyStream, [&] {
      absl::Status status = streams_.Destroy(stream);
      // After the destruction: a caller that sees the epoch unchanged must find the stream intact.
      if (status.ok()) AdvanceStreamEpoch();
      return status;
    });
  }

  bool HasStream(Stream stream) const override { return streams_.Find(stream).ok(); }

  absl::Status SynchronizeStream(Stream stream) override {
    return Run(Call::kSynchronizeStream, [&] {
      absl::StatusOr<std::shared_ptr<WorkQueue>> queue = streams_.Find(stream);
      if (queue.ok()) (*queue)->End().Wait();
      return queue.status();
    });
  }

  absl::StatusOr<Event> CreateEvent(EventKind kind) override {
    return Run(Call::kCreateEvent, [&]() -> absl::StatusOr<Event> { return events_.Create(kind); });
  }

  absl::Status DestroyEvent(Event event) override {
    return Run(Call::kDestroyEvent, [&] { return events_.Destroy(event); });
  }

  absl::Status RecordEvent(Event event, Stream stream) override {
    return Run(Call::kRecordEvent, [&] {
      const absl::StatusOr<EventKind> kind = events_.KindOf(event);
      if (!kind.ok()) return kind.status();
      std::shared_ptr<const ReachedTime> reached;
      if (*kind == EventKind::kTimed) reached = PushMark(stream);
      absl::StatusOr<QueuePosition> position = streams_.EndOf(stream);
      return position.ok() ? events_.Set(event, *std::move(position), std::move(reached))
                           : position.status();
    });
  }

  // A stream of its own waits for the others, and ends with the recorded point.
  absl::Status RecordAll(Event event) override {
    return Run(Call::kRecordAll, [&] {
      const std::vector<QueuePosition> ends = streams_.EndsOfAll();
      const Stream joint = streams_.Create();
      absl::Status status = Push(joint, OnTime([ends] {
                                   for (const QueuePosition& end : ends) end.Wait();
                                 }));
      absl::StatusOr<QueuePosition> end = streams_.EndOf(joint);
      if (status.ok()) status = end.ok() ? events_.Set(event, *std::move(end)) : end.status();
      status.Update(streams_.Destroy(joint));
      return status;
    });
  }

  absl::Status WaitEvent(Stream stream, Event event) override {
    return Run(Call::kWaitEvent, [&]() -> absl::Status {
      absl::StatusOr<std::shared_ptr<WorkQueue>> queue = streams_.Find(stream);
      if (!queue.ok()) return queue.status();
      absl::StatusOr<QueuePosition> position = events_.GetOfAny(event);
      if (!position.ok()) return position.status();
      if (position->IsIn(**queue) || position->IsReached()) return absl::OkStatus();
      return (*queue)->Push(OnTime([position = *std::move(position)] { position.Wait(); }));
    });
  }

  absl::StatusOr<bool> QueryEvent(Event event) override {
    return Run(Call::kQueryEvent, [&]() -> absl::StatusOr<bool> {
      absl::StatusOr<QueuePosition> position = events_.Get(event);
      if (!position.ok()) return position.status();
      return position->IsReached();
    });
  }

  absl::Status SynchronizeEvent(Event event) override {
    return Run(Call::kSynchronizeEvent, [&] {
      absl::StatusOr<QueuePosition> position = events_.Get(event);
      if (position.ok()) position->Wait();
      return position.status();
    });
  }

  absl::StatusOr<double> SecondsBetween(Event first, Event second) override {
    return Run(Call::kSecondsBetween, [&]() -> absl::StatusOr<double> {
      const absl::StatusOr<Clock::time_point> begin = events_.TimeOf(first);
      if (!begin.ok()) return begin.status();
      const absl::StatusOr<Clock::time_point> end = events_.TimeOf(second);
      if (!end.ok()) return end.status();
      return std::chrono::duration<double>(*end - *begin).count();
    });
  }

  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    return Run(Call::kCopy, [&] {
      absl::Status status = CheckCopy(to, from, bytes, direction);
      if (!status.ok()) return status;
      return Push(stream, [=, this, ticket = gate_.Ticket()](Clock::time_point ready) {
        if (gate_.Pass(ticket)) ready = Clock::now();
        return RunCopy(to, from, bytes, direction, ready);
      });
    });
  }

  absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) override {
    return Run(Call::kFill, [&] {
      absl::Status status = CheckDeviceMemory("the destination", to, bytes);
      if (!status.ok()) return status;
      return Push(stream, OnTime([=] { std::memset(to, value, static_cast<std::size_t>(bytes)); }));
    });
  }

  absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) override {
    return Run(Call::kSpendTime, [&] {
      if (nanoseconds < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("asked for ", nanoseconds, " ns, expected at least 0"));
      }
      return Push(stream, [nanoseconds](Clock::time_point ready) {
        const Clock::time_point end = ready + std::chrono::nanoseconds(nanoseconds);
        std::this_thread::sleep_until(end);
        return end;
      });
    });
  }

  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    return Run(Call::kCallHost, [&] {
      if (function == nullptr) return absl::InvalidArgumentError("the function is empty");
      return Push(stream, OnTime(std::move(function)));
    });
  }

  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    return Run(Call::kAllocateMemory, [&]() -> absl::StatusOr<void*> {
      if (absl::Status status = budget_->Take(bytes); !status.ok()) return status;
      absl::StatusOr<void*> address = memory_.Allocate(bytes);
      if (!address.ok()) budget_->Return(bytes);
      return address;
    });
  }

  absl::Status FreeMemory(void* address) override {
    return Run(Call::kFreeMemory, [&] {
      absl::StatusOr<std::int64_t> bytes = memory_.Free(address);
      if (bytes.ok()) budget_->Return(*bytes);
      return bytes.status();
    });
  }

  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override {
    return Run(Call::kAllocatePinned, [&]() -> absl::StatusOr<void*> {
      if (bytes <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("asked for ", bytes, " bytes, expected at least one"));
      }
      absl::StatusOr<void*> address = pinned_.Allocate(bytes);
      if (address.ok()) host::LockOnTouch(*address, bytes);
      return address;
    });
  }

  absl::Status FreePinned(void* address) override {
    return Run(Call::kFreePinned, [&] { return pinned_.Free(address).status(); });
  }

  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    return Run(Call::kRegisterHostMemory, [&] {
      absl::Status status = CheckRange("the memory", address, bytes);
      if (status.ok()) status = CheckHostMemory("the memory", address, bytes);
      if (!status.ok()) return status;
      if (pinned_.Overlap(address, bytes)) {
        return absl::InvalidArgumentError(
            "the memory was allocated as pinned memory, expected plain memory");
      }
      return registrations_.Register(address, bytes);
    });
  }

  absl::Status UnregisterHostMemory(void* address) override {
    return Run(Call::kUnregisterHostMemory, [&] { return registrations_.Unregister(address); });
  }

  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) override {
    return RunVirtual(Call::kReserveAddresses, [&](device::VirtualMemory& memory) {
      return memory.ReserveAddresses(bytes);
    });
  }

  absl::Status ReleaseAddresses(void* address, std::int64_t bytes) override {
    return RunVirtual(Call::kReleaseAddresses, [&](device::VirtualMemory& memory) {
      return memory.ReleaseAddresses(address, bytes);
    });
  }

  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    return RunVirtual(Call::kCreatePhysical,
                      [&](device::VirtualMemory& memory) { return memory.CreatePhysical(bytes); });
  }

  absl::Status ReleasePhysical(PhysicalMemory physical) override {
    return RunVirtual(Call::kReleasePhysical, [&](device::VirtualMemory& memory) {
      return memory.ReleasePhysical(physical);
    });
  }

  absl::Status Map(void* address, PhysicalMemory physical) override {
    return RunVirtual(Call::kMap,
                      [&](device::VirtualMemory& memory) { return memory.Map(address, physical); });
  }

  absl::Status Unmap(void* address) override {
    return RunVirtual(Call::kUnmap,
                      [&](device::VirtualMemory& memory) { return memory.Unmap(address); });
  }

  std::int64_t CountCalls(Call call) const override { return faults_.Count(call); }
  void FailCall(Call call, std::int64_t n) override { faults_.Order(call, n); }
  void HoldCopies() override { gate_.Hold(); }
  void ReleaseCopies() override { gate_.Release(); }

 private:
  using Clock = WorkQueue::Clock;

  HostDeviceOfThreads(const HostDeviceOptions& options, std::unique_ptr<MemoryBudget> budget,
                      std::unique_ptr<AddressArena> arena,
                      std::unique_ptr<device::VirtualMemory> virtual_memory)
      : budget_(std::move(budget)),
        memory_(std::move(arena)),
        virtual_memory_(std::move(virtual_memory)),
        to_device_(options.copy_bytes_per_second, options.copy_latency_ns),
        from_device_(options.copy_bytes_per_second, options.copy_latency_ns),
        has_copy_times_(options.copy_bytes_per_second > 0 || options.copy_latency_ns > 0) {}

  // Makes a call: runs `function`, unless a test ordered the call to fail.
  template <typename Function>
  std::invoke_result_t<Function> Run(Call call, Function function) {
    if (faults_.Enter(call)) {
      return absl::UnavailableError(absl::StrCat(NameOf(call), ": failed on order of FailCall"));
    }
    std::invoke_result_t<Function> result = function();
    if (result.ok()) return result;
    const absl::Status& status = StatusOf(result);
    return absl::Status(status.code(), absl::StrCat(NameOf(call), ": ", status.message()));
  }

  template <typename Function>
  std::invoke_result_t<Function, device::VirtualMemory&> RunVirtual(Call call, Function function) {
    return Run(call, [&]() -> std::invoke_result_t<Function, device::VirtualMemory&> {
      if (virtual_memory_ == nullptr) {
        return absl::UnimplementedError("the device has no virtual memory");
      }
      return function(*virtual_memory_);
    });
  }

  // Returns work that finishes when its thread returns from `function`.
  template <typename Function>
  static WorkQueue::Work OnTime(Function function) {
    return [function = std::move(function)](Clock::time_point) {
      function();
      return Clock::now();
    };
  }

  absl::Status Push(Stream stream, WorkQueue::Work work) {
    absl::StatusOr<std::shared_ptr<WorkQueue>> queue = streams_.Find(stream);
    return queue.ok() ? (*queue)->Push(std::move(work)) : queue.status();
  }

  // Appends work that takes no time and tells when the stream came to it. Null if the stream takes
  // no work.
  std::shared_ptr<const ReachedTime> PushMark(Stream stream) {
    auto reached = std::make_shared<ReachedTime>();
    const absl::Status status =
        Push(stream, [reached](Clock::time_point ready) { return reached->time = ready; });
    return status.ok() ? reached : nullptr;
  }

  absl::Status CheckCopy(const void* to, const void* from, std::int64_t bytes,
                         CopyDirection direction) const {
    absl::Status status = direction == CopyDirection::kFromDevice
                              ? CheckHostMemory("the destination", to, bytes)
                              : CheckDeviceMemory("the destination", to, bytes);
    if (!status.ok()) return status;
    if (direction == CopyDirection::kToDevice) return CheckHostMemory("the source", from, bytes);
    if (direction == CopyDirection::kFromPeer) return CheckRange("the source", from, bytes);
    return CheckDeviceMemory("the source", from, bytes);
  }

  absl::Status CheckDeviceMemory(const char* subject, const void* address,
                                 std::int64_t bytes) const {
    if (absl::Status status = CheckRange(subject, address, bytes); !status.ok()) return status;
    if (bytes == 0 || memory_.Contain(address, bytes) ||
        (virtual_memory_ != nullptr && virtual_memory_->IsMapped(address, bytes))) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(subject, " does not lie in device memory"));
  }

  absl::Status CheckHostMemory(const char* subject, const void* address, std::int64_t bytes) const {
    if (absl::Status status = CheckRange(subject, address, bytes); !status.ok()) return status;
    const bool is_of_the_device =
        memory_.Overlap(address, bytes) ||
        (virtual_memory_ != nullptr && virtual_memory_->OverlapsReserved(address, bytes));
    if (bytes > 0 && is_of_the_device) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject, " overlaps device memory, expected host memory"));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckRange(const char* subject, const void* address, std::int64_t bytes) {
    if (address == nullptr) return absl::InvalidArgumentError(absl::StrCat(subject, " is null"));
    if (bytes < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("the size is ", bytes, " bytes, expected at least 0"));
    return absl::OkStatus();
  }

  // The bytes move at the end of the simulated time, so a reader that does not wait finds the old
  // bytes.
  Clock::time_point RunCopy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                            Clock::time_point ready) {
    const bool is_of_host =
        direction == CopyDirection::kToDevice || direction == CopyDirection::kFromDevice;
    if (has_copy_times_ && is_of_host) {
      CopyEngine& engine = direction == CopyDirection::kToDevice ? to_device_ : from_device_;
      const Clock::time_point end = engine.SpendTime(ready, bytes);
      std::memmove(to, from, static_cast<std::size_t>(bytes));
      return end;
    }
    std::memmove(to, from, static_cast<std::size_t>(bytes));
    return Clock::now();
  }

  CallFaults faults_;
  std::unique_ptr<MemoryBudget> budget_;
  Allocations memory_;
  Allocations pinned_;
  Registrations registrations_;
  std::unique_ptr<device::VirtualMemory> virtual_memory_;  // null: no virtual memory
  CopyGate gate_;
  CopyEngine to_device_;
  CopyEngine from_device_;
  const bool has_copy_times_;
  Events events_;
  Streams streams_;  // last, because queued work uses all members above
};

}  // namespace
}  // namespace host

absl::StatusOr<std::unique_ptr<HostDevice>> HostDevice::Create(const HostDeviceOptions& options) {
  if (absl::Status status = host::Check(options); !status.ok()) return status;
  return host::HostDeviceOfThreads::Create(options);
}

}  // namespace tidepool
