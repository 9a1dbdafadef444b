// SPDX-License-Identifier: Apache-2.0
// The functions that a device may leave as they are, and the one counter of names in the process.
// They lie in one library, even if devices come from several.
#include "tidepool/device.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/owned.h"

namespace tidepool {

std::uint64_t TakeDeviceNames(std::uint64_t count) {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(count, std::memory_order_relaxed);
}

absl::Status Device::AwaitEvent(Stream stream) {
  if (!HasStream(stream)) {
    return absl::NotFoundError(
        absl::StrCat("SynchronizeStream: the device ", name(), " has no stream ", stream.id));
  }
  absl::StatusOr<device::OwnedEvent> end = device::OwnedEvent::Create(*this, EventKind::kWaited);
  if (!end.ok()) return end.status();
  absl::Status status = RecordEvent(end->get(), stream);
  return status.ok() ? SynchronizeEvent(end->get()) : status;
}

absl::Status Device::Sleep(Stream stream, std::int64_t nanoseconds) {
  if (nanoseconds < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("SpendTime: asked for ", nanoseconds, " ns, expected at least 0"));
  }
  return CallHost(stream, [nanoseconds] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
  });
}

absl::Status Device::Lacks(const char* call, const char* what) const {
  return absl::UnimplementedError(absl::StrCat(call, ": the device ", name(), " has no ", what));
}

}  // namespace tidepool
