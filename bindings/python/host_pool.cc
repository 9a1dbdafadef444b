// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/host_pool.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/device/owned.h"

namespace tidepool::python {
namespace {

// Returns the memory of a device that holds the pool: whole granules.
std::int64_t DeviceBytes(const PoolOptions& options) {
  const std::int64_t granule = HostDeviceOptions().granularity;
  const std::int64_t bytes = std::max(options.max_bytes, options.initial_bytes);
  return bytes > INT64_MAX - granule ? bytes : RoundUp(bytes, granule);
}

}  // namespace

HostPool::HostPool() : process_(getpid()) {}

absl::StatusOr<std::shared_ptr<HostPool>> HostPool::Create(PoolOptions options,
                                                           const std::string& trace) {
  if (options.max_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget of ", options.max_bytes, " bytes, expected 1 byte or more"));
  }
  const std::shared_ptr<HostPool> made(new HostPool());
  auto device = HostDevice::Create({.memory_bytes = DeviceBytes(options)});
  if (!device.ok()) return device.status();
  made->device_ = *std::move(device);
  if (!trace.empty()) {
    auto recorder = Recorder::Create({.path = trace, .alignment = options.alignment});
    if (!recorder.ok()) return recorder.status();
    made->recorder_ = *std::move(recorder);
    options.recorder = made->recorder_.get();
  }
  auto pool = Pool::Create(made->device_.get(), options);
  if (!pool.ok()) return pool.status();
  made->pool_ = *std::move(pool);
  const absl::StatusOr<Stream> stream = made->device_->CreateStream();
  if (!stream.ok()) return stream.status();
  made->stream_ = *stream;
  return made;
}

// A forked child lacks the threads of the device and of the recorder, so their ends would wait for
// ever there.
HostPool::~HostPool() {
  if (CheckProcess().ok()) return;
  static_cast<void>(pool_.release());
  static_cast<void>(recorder_.release());
  static_cast<void>(device_.release());
}

absl::StatusOr<std::shared_ptr<HostStream>> HostPool::CreateStream() {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  const absl::StatusOr<Stream> name = device_->CreateStream();
  if (!name.ok()) return name.status();
  return std::make_shared<HostStream>(shared_from_this(), *name);
}

absl::Status HostPool::CheckStream(const std::shared_ptr<HostStream>& stream) const {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  if (stream == nullptr || stream->pool_.get() == this) return absl::OkStatus();
  return absl::InvalidArgumentError("a stream of another pool, expected one of this pool");
}

Stream HostPool::NameOf(const std::shared_ptr<HostStream>& stream) const {
  return stream == nullptr ? stream_ : stream->name_;
}

absl::StatusOr<std::shared_ptr<Allocation>> HostPool::Allocate(
    std::size_t bytes, Hint hint, const std::shared_ptr<HostStream>& stream) {
  if (absl::Status status = CheckStream(stream); !status.ok()) return status;
  return Own(pool_->Allocate(bytes, NameOf(stream), hint), bytes, stream);
}

absl::StatusOr<std::shared_ptr<Allocation>> HostPool::AllocateBlocking(
    std::size_t bytes, Hint hint, const std::shared_ptr<HostStream>& stream, absl::Time deadline,
    std::stop_token stop) {
  if (absl::Status status = CheckStream(stream); !status.ok()) return status;
  return Own(pool_->AllocateBlocking(bytes, NameOf(stream), hint, deadline, std::move(stop)), bytes,
             stream);
}

absl::StatusOr<std::shared_ptr<Allocation>> HostPool::Own(
    absl::StatusOr<void*> address, std::size_t bytes, const std::shared_ptr<HostStream>& stream) {
  if (!address.ok()) return address.status();
  return std::make_shared<Allocation>(shared_from_this(), stream, *address, bytes);
}

absl::Status HostPool::AtEndOf(Stream stream, const std::function<absl::Status(Event)>& function) {
  const auto event = device::OwnedEvent::Record(*device_, stream);
  return event.ok() ? function(event->get()) : event.status();
}

absl::Status HostPool::CheckProcess() const {
  if (getpid() == process_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the pool belongs to the process that made it, expected a pool of this process: make it "
      "after the fork");
}

absl::Status HostPool::CloseTrace() {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  return recorder_ == nullptr ? absl::OkStatus() : recorder_->Close();
}

Allocation::Allocation(std::shared_ptr<HostPool> pool, std::shared_ptr<HostStream> stream,
                       void* address, std::size_t bytes)
    : pool_(std::move(pool)), stream_(std::move(stream)), address_(address), bytes_(bytes) {}

Allocation::~Allocation() {
  if (pool_->CheckProcess().ok()) {
    pool_->pool_->Free(address_, pool_->NameOf(stream_)).IgnoreError();
  }
}

absl::Status Allocation::RecordUse(const std::shared_ptr<HostStream>& stream) {
  if (absl::Status status = pool_->CheckStream(stream); !status.ok()) return status;
  if (address_ == nullptr) return absl::OkStatus();
  return pool_->pool_->RecordUse(address_, pool_->NameOf(stream));
}

absl::Status Allocation::CheckProcess() const { return pool_->CheckProcess(); }

absl::Status Allocation::FreeOn(std::shared_ptr<HostStream> stream) {
  if (absl::Status status = pool_->CheckStream(stream); !status.ok()) return status;
  stream_ = std::move(stream);
  return absl::OkStatus();
}

HostStream::HostStream(std::shared_ptr<HostPool> pool, Stream name)
    : pool_(std::move(pool)), name_(name) {}

HostStream::~HostStream() {
  if (pool_->CheckProcess().ok()) pool_->device_->DestroyStream(name_).IgnoreError();
}

absl::Status HostStream::RecordUse(Allocation& memory) {
  if (absl::Status status = pool_->CheckProcess(); !status.ok()) return status;
  if (memory.pool_ != pool_) {
    return absl::InvalidArgumentError("memory of another pool, expected memory of this pool");
  }
  if (memory.address_ == nullptr) return absl::OkStatus();
  return pool_->pool_->RecordUse(memory.address_, name_);
}

absl::Status HostStream::Fill(Allocation& memory, std::uint8_t value) {
  if (absl::Status status = RecordUse(memory); !status.ok()) return status;
  if (memory.address_ == nullptr) return absl::OkStatus();
  return pool_->device_->Fill(memory.address_, value, static_cast<std::int64_t>(memory.bytes_),
                              name_);
}

absl::Status HostStream::Copy(Allocation& to, Allocation& from) {
  if (to.bytes_ != from.bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a copy of ", from.bytes_, " bytes to ", to.bytes_, ", expected equal sizes"));
  }
  if (absl::Status status = RecordUse(to); !status.ok()) return status;
  if (absl::Status status = RecordUse(from); !status.ok()) return status;
  if (to.address_ == nullptr) return absl::OkStatus();
  return pool_->device_->Copy(to.address_, from.address_, static_cast<std::int64_t>(to.bytes_),
                              CopyDirection::kOnDevice, name_);
}

absl::Status HostStream::Wait(const HostStream& other) {
  if (other.pool_ != pool_) {
    return absl::InvalidArgumentError("a stream of another pool, expected one of this pool");
  }
  if (absl::Status status = pool_->CheckProcess(); !status.ok()) return status;
  return pool_->AtEndOf(other.name_,
                        [&](Event event) { return pool_->device_->WaitEvent(name_, event); });
}

absl::StatusOr<bool> HostStream::IsIdle() {
  if (absl::Status status = pool_->CheckProcess(); !status.ok()) return status;
  bool is_idle = false;
  absl::Status status = pool_->AtEndOf(name_, [&](Event event) {
    const absl::StatusOr<bool> has_finished = pool_->device_->QueryEvent(event);
    is_idle = has_finished.ok() && *has_finished;
    return has_finished.status();
  });
  if (!status.ok()) return status;
  return is_idle;
}

absl::Status HostStream::Synchronize() {
  if (absl::Status status = pool_->CheckProcess(); !status.ok()) return status;
  return pool_->device_->SynchronizeStream(name_);
}

}  // namespace tidepool::python
