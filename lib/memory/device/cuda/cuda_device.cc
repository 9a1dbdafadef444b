// SPDX-License-Identifier: Apache-2.0
// Composes the device of its parts. This file makes the device current and puts the names of calls
// into errors; the parts do the work.
#include "tidepool/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/cuda/cuda_allocations.h"
#include "lib/memory/device/cuda/cuda_error.h"
#include "lib/memory/device/cuda/cuda_events.h"
#include "lib/memory/device/cuda/cuda_registrations.h"
#include "lib/memory/device/cuda/cuda_streams.h"
#include "lib/memory/device/cuda/device_guard.h"
#include "lib/memory/device/cuda/driver_backing.h"
#include "lib/memory/device/cuda/spin_kernel.h"
#include "lib/memory/device/virtual_memory.h"

namespace tidepool {
namespace cuda {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// The parts that the destructor gives back while the device is current, in reverse order.
struct Parts {
  Parts(int ordinal, MemoryKind kind)
      : events(&pools), streams(ordinal, &pools.order), memory(kind) {}

  NativeEventPools pools;
  CudaEvents events;
  CudaStreams streams;
  CudaAllocations memory;
  CudaAllocations pinned{MemoryKind::kPinned};
  CudaRegistrations registered;
  SpinKernel spin;
  std::unique_ptr<device::VirtualMemory> virtual_memory;  // null: no virtual memory
};

constexpr cudaMemcpyKind KindOf(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kToDevice:
      return cudaMemcpyHostToDevice;
    case CopyDirection::kFromDevice:
      return cudaMemcpyDeviceToHost;
    case CopyDirection::kOnDevice:
    case CopyDirection::kFromPeer:
      return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

absl::Status CheckRange(const char* subject, const void* address, std::int64_t bytes) {
  if (address == nullptr) return absl::InvalidArgumentError(absl::StrCat(subject, " is null"));
  if (bytes < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("the size is ", bytes, " bytes, expected at least 0"));
  return absl::OkStatus();
}

absl::Status CheckPositive(std::int64_t bytes) {
  if (bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("asked for ", bytes, " bytes, expected at least one"));
}

void CUDART_CB RunFunction(void* data) {
  const std::unique_ptr<std::function<void()>> function(static_cast<std::function<void()>*>(data));
  (*function)();
}

class CudaDeviceOfRuntime final : public CudaDevice {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaDeviceOptions& options) {
    if (absl::Status status = CheckOrdinals(options); !status.ok()) return status;
    const DeviceGuard guard(options.ordinal);
    if (!guard.status().ok()) return guard.status();
    if (absl::Status status = CheckMemory(options); !status.ok()) return status;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    // This is the first call that needs a context, and creates it.
    absl::Status status = Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    if (!status.ok()) return status;
    std::unique_ptr<CudaDeviceOfRuntime> device(
        new CudaDeviceOfRuntime(options, static_cast<std::int64_t>(total_bytes)));
    if (options.memory == CudaMemory::kManaged) return device;
    auto virtual_memory =
        MakeVirtualMemory(options.ordinal, options.peers, &device->physical_bytes_);
    if (!virtual_memory.ok()) return virtual_memory.status();
    device->parts_->virtual_memory = *std::move(virtual_memory);
    return device;
  }

  ~CudaDeviceOfRuntime() override {
    std::optional<DeviceGuard> guard(ordinal_);
    if (!guard->status().ok()) guard.emplace(ordinal_);
    TryTwice([] { return cudaDeviceSynchronize(); });
    parts_.reset();
  }

  std::string name() const override { return absl::StrCat("cuda:", ordinal_); }
  std::int64_t memory_bytes() const override { return memory_bytes_; }
  std::int64_t used_bytes() const override {
    return parts_->memory.bytes() + physical_bytes_.load();
  }
  int ordinal() const override { return ordinal_; }

  absl::StatusOr<std::int64_t> FreeBytes() const override {
    return Run("FreeBytes", [&]() -> absl::StatusOr<std::int64_t> {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      absl::Status status = Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
      if (!status.ok()) return status;
      return static_cast<std::int64_t>(free_bytes);
    });
  }

  absl::StatusOr<Stream> CreateStream() override {
    return Run("CreateStream", [&] { return parts_->streams.Create(); });
  }

  absl::Status DestroyStream(Stream stream) override {
    return Run("DestroyStream", [&] { return End(stream, CudaStreams::Which::kAny); });
  }

  absl::StatusOr<Stream> WrapStream(cudaStream_t native, StreamPromise promise) override {
    return Run("WrapStream", [&]() -> absl::StatusOr<Stream> {
      const absl::StatusOr<CudaStreams::Wrapped> wrapped = parts_->streams.Wrap(native, promise);
      if (!wrapped.ok()) return wrapped.status();
      if (wrapped->has_replaced) AdvanceStreamEpoch();
      return wrapped->stream;
    });
  }

  absl::Status UnwrapStream(Stream stream) override {
    return Run("UnwrapStream", [&] { return End(stream, CudaStreams::Which::kWrapped); });
  }

  absl::Status ForgetWrappedStreams() override {
    return Run("ForgetWrappedStreams", [&] {
      const absl::StatusOr<int> count = parts_->streams.ForgetWrapped();
      if (count.ok() && *count > 0) AdvanceStreamEpoch();
      return count.status();
    });
  }

  absl::StatusOr<cudaStream_t> NativeStream(Stream stream) const override {
    cudaStream_t found = nullptr;
    absl::Status status = parts_->streams.Use(stream, [&](cudaStream_t native) {
      found = native;
      return absl::OkStatus();
    });
    if (!status.ok()) return WithName("NativeStream", status);
    return found;
  }

  bool HasStream(Stream stream) const override { return parts_->streams.Has(stream); }
  bool MayEnd(Stream stream) const override { return parts_->streams.MayEnd(stream); }

  absl::Status SynchronizeStream(Stream stream) override {
    return Run("SynchronizeStream", [&] {
      // Waits for an event, because the stream may be destroyed during the wait.
      absl::StatusOr<SharedRecording> end = MakeRecording(parts_->pools.waited);
      if (!end.ok()) return end.status();
      absl::Status status =
          parts_->streams.Use(stream, [&](cudaStream_t native) { return Record(**end, native); });
      return status.ok() ? WaitFor(*end) : status;
    });
  }

  absl::StatusOr<Event> CreateEvent(EventKind kind) override { return parts_->events.Create(kind); }

  absl::Status DestroyEvent(Event event) override {
    return WithName("DestroyEvent", parts_->events.Destroy(event));
  }

  absl::Status RecordEvent(Event event, Stream stream) override {
    return Run("RecordEvent", [&] {
      const bool may_capture = parts_->streams.MayEnd(stream);
      absl::Status status = parts_->streams.Use(stream, [&](cudaStream_t native) {
        if (may_capture) {
          if (absl::Status refused = RefuseCapture(native); !refused.ok()) return refused;
        }
        return parts_->events.Set(
            event, [&](const Recording& recording) { return Record(recording, native); });
      });
      if (!absl::IsNotFound(status) || parts_->streams.Has(stream)) return status;
      if (parts_->streams.MayHaveEndedUnrecorded(stream)) return RecordAllOf(event);
      absl::StatusOr<SharedRecording> end = parts_->streams.EndOf(stream);
      return end.ok() ? parts_->events.SetShared(event, *std::move(end)) : end.status();
    });
  }

  absl::Status RecordAll(Event event) override {
    return Run("RecordAll", [&] { return RecordAllOf(event); });
  }

  absl::Status CheckNoCapture(Stream stream) const override {
    return Run("CheckNoCapture", [&] { return parts_->streams.Use(stream, RefuseCapture); });
  }

  void NoteCapture(bool begins) override { captures_ += begins ? 1 : -1; }

  absl::Status WaitEvent(Stream stream, Event event) override {
    return Run("WaitEvent", [&] {
      return parts_->streams.Use(stream, [&](cudaStream_t native) {
        const absl::StatusOr<SharedRecording> recording = parts_->events.GetOfAny(event);
        if (!recording.ok() || *recording == nullptr) return recording.status();
        return Check(cudaStreamWaitEvent(native, (*recording)->event(), 0), "cudaStreamWaitEvent",
                     native, (*recording)->event());
      });
    });
  }

  absl::StatusOr<bool> QueryEvent(Event event) override {
    return Run("QueryEvent", [&]() -> absl::StatusOr<bool> {
      const absl::StatusOr<SharedRecording> recording = parts_->events.Get(event);
      if (!recording.ok()) return recording.status();
      return HasFinished(*recording);
    });
  }

  absl::Status SynchronizeEvent(Event event) override {
    return Run("SynchronizeEvent", [&] {
      const absl::StatusOr<SharedRecording> recording = parts_->events.Get(event);
      return recording.ok() ? WaitFor(*recording) : recording.status();
    });
  }

  absl::StatusOr<double> SecondsBetween(Event first, Event second) override {
    return Run("SecondsBetween", [&]() -> absl::StatusOr<double> {
      const absl::StatusOr<SharedRecording> begin = parts_->events.Get(first);
      if (!begin.ok()) return begin.status();
      const absl::StatusOr<SharedRecording> end = parts_->events.Get(second);
      if (!end.ok()) return end.status();
      return cuda::SecondsBetween(*begin, *end);
    });
  }

  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    return Run("Copy", [&] {
      absl::Status status = CheckRange("the destination", to, bytes);
      status.Update(CheckRange("the source", from, bytes));
      if (!status.ok()) return status;
      return parts_->streams.Use(stream, [&](cudaStream_t native) {
        if (direction == CopyDirection::kFromPeer) return CopyFromPeer(to, from, bytes, native);
        return Check(
            cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), KindOf(direction), native),
            "cudaMemcpyAsync", to, from, bytes, static_cast<int>(KindOf(direction)), native);
      });
    });
  }

  absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) override {
    return Run("Fill", [&] {
      absl::Status status = CheckRange("the destination", to, bytes);
      if (!status.ok()) return status;
      return parts_->streams.Use(stream, [&](cudaStream_t native) {
        return Check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), native),
                     "cudaMemsetAsync", to, static_cast<int>(value), bytes, native);
      });
    });
  }

  absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) override {
    return Run("SpendTime", [&] {
      if (nanoseconds < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("asked for ", nanoseconds, " ns, expected at least 0"));
      }
      return parts_->streams.Use(stream, [&](cudaStream_t native) {
        return nanoseconds == 0 ? absl::OkStatus() : parts_->spin.Launch(nanoseconds, native);
      });
    });
  }

  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    return Run("CallHost", [&] {
      if (function == nullptr) return absl::InvalidArgumentError("the function is empty");
      auto data = std::make_unique<std::function<void()>>(std::move(function));
      return parts_->streams.Use(stream, [&](cudaStream_t native) {
        absl::Status status = Check(cudaLaunchHostFunc(native, RunFunction, data.get()),
                                    "cudaLaunchHostFunc", native);
        if (status.ok()) static_cast<void>(data.release());  // RunFunction owns it now
        return status;
      });
    });
  }

  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    return Run("AllocateMemory", [&]() -> absl::StatusOr<void*> {
      if (absl::Status status = CheckPositive(bytes); !status.ok()) return status;
      // CUDA would allocate more managed memory than the device has, and migrate pages.
      if (bytes > memory_bytes_) {
        return absl::ResourceExhaustedError(
            absl::StrCat("asked for ", bytes, " bytes, the device has ", memory_bytes_));
      }
      return parts_->memory.Allocate(bytes);
    });
  }

  absl::Status FreeMemory(void* address) override {
    return Run("FreeMemory", [&] { return parts_->memory.Free(address); });
  }

  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override {
    return Run("AllocatePinned", [&]() -> absl::StatusOr<void*> {
      if (absl::Status status = CheckPositive(bytes); !status.ok()) return status;
      return parts_->pinned.Allocate(bytes);
    });
  }

  absl::Status FreePinned(void* address) override {
    return Run("FreePinned", [&] { return parts_->pinned.Free(address); });
  }

  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    return Run("RegisterHostMemory", [&] {
      absl::Status status = CheckRange("the memory", address, bytes);
      if (status.ok()) status = CheckPositive(bytes);
      return status.ok() ? parts_->registered.Register(address, bytes) : status;
    });
  }

  absl::Status UnregisterHostMemory(void* address) override {
    return Run("UnregisterHostMemory", [&] { return parts_->registered.Unregister(address); });
  }

  std::int64_t granularity() const override {
    return parts_->virtual_memory == nullptr ? 0 : parts_->virtual_memory->granularity();
  }

  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) override {
    return RunVirtual("ReserveAddresses", [&](device::VirtualMemory& memory) {
      return memory.ReserveAddresses(bytes);
    });
  }

  absl::Status ReleaseAddresses(void* address, std::int64_t bytes) override {
    return RunVirtual("ReleaseAddresses", [&](device::VirtualMemory& memory) {
      return memory.ReleaseAddresses(address, bytes);
    });
  }

  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    return RunVirtual("CreatePhysical",
                      [&](device::VirtualMemory& memory) { return memory.CreatePhysical(bytes); });
  }

  absl::Status ReleasePhysical(PhysicalMemory physical) override {
    return RunVirtual("ReleasePhysical", [&](device::VirtualMemory& memory) {
      return memory.ReleasePhysical(physical);
    });
  }

  absl::Status Map(void* address, PhysicalMemory physical) override {
    return RunVirtual("Map",
                      [&](device::VirtualMemory& memory) { return memory.Map(address, physical); });
  }

  absl::Status Unmap(void* address) override {
    return RunVirtual("Unmap",
                      [&](device::VirtualMemory& memory) { return memory.Unmap(address); });
  }

 private:
  CudaDeviceOfRuntime(const CudaDeviceOptions& options, std::int64_t memory_bytes)
      : ordinal_(options.ordinal), memory_bytes_(memory_bytes) {
    parts_.emplace(options.ordinal, options.memory == CudaMemory::kManaged ? MemoryKind::kManaged
                                                                           : MemoryKind::kDevice);
  }

  static absl::Status CheckOrdinals(const CudaDeviceOptions& options) {
    int count = 0;
    absl::Status status = Check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (!status.ok()) return status;
    const auto is_there = [&](int ordinal) { return ordinal >= 0 && ordinal < count; };
    if (!is_there(options.ordinal)) {
      return absl::UnavailableError(absl::StrCat("CudaDeviceOptions: unknown device ",
                                                 options.ordinal, ", expected a number below ",
                                                 count));
    }
    for (const int peer : options.peers) {
      if (is_there(peer) && peer != options.ordinal) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("CudaDeviceOptions: device ", peer,
                       " cannot be a peer, expected another device below ", count));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckMemory(const CudaDeviceOptions& options) {
    if (options.memory != CudaMemory::kManaged) return absl::OkStatus();
    int has_managed_memory = 0;
    absl::Status status = Check(
        cudaDeviceGetAttribute(&has_managed_memory, cudaDevAttrManagedMemory, options.ordinal),
        "cudaDeviceGetAttribute", "cudaDevAttrManagedMemory", options.ordinal);
    if (status.ok() && has_managed_memory == 0) {
      return absl::InvalidArgumentError("CudaDeviceOptions: the device has no managed memory");
    }
    return status;
  }

  // Without access between the GPUs, cudaMemcpyAsync copies memory of cudaMalloc alone.
  absl::Status CopyFromPeer(void* to, const void* from, std::int64_t bytes,
                            cudaStream_t native) const {
    cudaPointerAttributes source;
    absl::Status status =
        Check(cudaPointerGetAttributes(&source, from), "cudaPointerGetAttributes", from);
    if (!status.ok()) return status;
    return Check(cudaMemcpyPeerAsync(to, ordinal_, from, source.device,
                                     static_cast<std::size_t>(bytes), native),
                 "cudaMemcpyPeerAsync", to, ordinal_, from, source.device, bytes, native);
  }

  // Captures do not survive a record of all streams.
  absl::Status RecordAllOf(Event event) {
    if (captures_ > 0) {
      return absl::FailedPreconditionError(
          "a stream captures, and the capture would not survive a record of all streams");
    }
    absl::StatusOr<SharedRecording> all = cuda::RecordAll(parts_->pools.order);
    return all.ok() ? parts_->events.SetShared(event, *std::move(all)) : all.status();
  }

  // An event that is recorded in a capture belongs to the graph.
  static absl::Status RefuseCapture(cudaStream_t native) {
    auto capture = cudaStreamCaptureStatusNone;
    absl::Status status =
        Check(cudaStreamIsCapturing(native, &capture), "cudaStreamIsCapturing", native);
    if (!status.ok() || capture == cudaStreamCaptureStatusNone) return status;
    return absl::FailedPreconditionError("the stream captures a graph");
  }

  static absl::Status WithName(const char* call, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(call, ": ", std::string(status.message())));
  }

  // Makes a call while the device is current.
  template <typename Function>
  std::invoke_result_t<Function> Run(const char* call, Function function) const {
    const DeviceGuard guard(ordinal_);
    if (!guard.status().ok()) return WithName(call, guard.status());
    std::invoke_result_t<Function> result = function();
    if (result.ok()) return result;
    return WithName(call, StatusOf(result));
  }

  template <typename Function>
  std::invoke_result_t<Function, device::VirtualMemory&> RunVirtual(const char* call,
                                                                    Function function) {
    if (parts_->virtual_memory == nullptr) {
      return WithName(call, absl::UnimplementedError("the device has no virtual memory"));
    }
    return Run(call, [&] { return function(*parts_->virtual_memory); });
  }

  absl::Status End(Stream stream, CudaStreams::Which which) {
    absl::Status status = parts_->streams.Destroy(stream, which);
    // After the destruction: a caller that sees the epoch unchanged must find the stream intact.
    if (status.ok()) AdvanceStreamEpoch();
    return status;
  }

  static absl::Status WaitFor(const SharedRecording& recording) {
    if (recording == nullptr) return absl::OkStatus();
    return Check(cudaEventSynchronize(recording->event()), "cudaEventSynchronize",
                 recording->event());
  }

  const int ordinal_;
  const std::int64_t memory_bytes_;
  std::atomic<std::int64_t> physical_bytes_ = 0;
  std::atomic<int> captures_ = 0;  // between the two calls of NoteCapture
  std::optional<Parts> parts_;     // empty once the device is being destroyed
};

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const CudaDeviceOptions& options) {
  return cuda::CudaDeviceOfRuntime::Create(options);
}

}  // namespace tidepool
