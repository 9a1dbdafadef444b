// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/host_pool.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tidepool::python {
namespace {

// Returns the memory of a device that holds the pool: whole granules.
std::int64_t DeviceBytes(const PoolOptions& options) {
  const std::int64_t granule = HostDeviceOptions().granularity;
  const std::int64_t bytes = std::max(options.max_bytes, options.initial_bytes);
  return bytes > INT64_MAX - granule ? bytes : (bytes + granule - 1) / granule * granule;
}

}  // namespace

HostPool::HostPool() : process_(getpid()) {}

absl::StatusOr<std::shared_ptr<HostPool>> HostPool::Create(PoolOptions options,
                                                           const std::string& trace) {
  if (options.max_bytes < 1) {
    return absl::InvalidArgumentError("budget of 0 bytes, expected 1 byte or more");
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

absl::StatusOr<std::shared_ptr<Allocation>> HostPool::Allocate(std::size_t bytes, Hint hint,
                                                               std::optional<absl::Time> deadline) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  const absl::StatusOr<void*> address =
      deadline.has_value() ? pool_->AllocateBlocking(bytes, stream_, hint, *deadline)
                           : pool_->Allocate(bytes, stream_, hint);
  if (!address.ok()) return address.status();
  return std::make_shared<Allocation>(shared_from_this(), *address, bytes);
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

void HostPool::Free(void* address) {
  if (CheckProcess().ok()) pool_->Free(address, stream_).IgnoreError();
}

Allocation::Allocation(std::shared_ptr<HostPool> pool, void* address, std::size_t bytes)
    : pool_(std::move(pool)), address_(address), bytes_(bytes) {}

Allocation::~Allocation() { pool_->Free(address_); }

}  // namespace tidepool::python
