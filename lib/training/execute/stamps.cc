// SPDX-License-Identifier: Apache-2.0
// Creates events only once, so that iterations need not.
#include "lib/training/execute/stamps.h"

#include <algorithm>
#include <chrono>

namespace tidepool::execute {

std::function<double()> ClockOf(const ExecutorOptions& options) {
  if (options.clock != nullptr) return options.clock;
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

void Stamps::Begin() {
  for (Origin& origin : origins_) origin.has_begun = false;
}

absl::Status Stamps::Begin(Device& device, Stream stream) {
  auto origin = std::find_if(origins_.begin(), origins_.end(),
                             [&](const Origin& one) { return one.device == &device; });
  if (origin == origins_.end()) origin = origins_.insert(origin, Origin{.device = &device});
  if (origin->has_begun) return absl::OkStatus();
  absl::Status status = origin->event.Ensure(device, EventKind::kTimed);
  if (status.ok()) status = device.RecordEvent(origin->event.get(), stream);
  origin->has_begun = status.ok();
  return status;
}

absl::StatusOr<Stamps::Marks> Stamps::Of(std::size_t at, Device& device) {
  Operation& operation = operations_[at];
  operation.device = &device;
  absl::Status status = operation.begins.Ensure(device, EventKind::kTimed);
  if (status.ok()) status = operation.ends.Ensure(device, EventKind::kTimed);
  if (!status.ok()) return status;
  return Marks{operation.begins.get(), operation.ends.get()};
}

absl::StatusOr<Stamps::Times> Stamps::Read(std::size_t at) const {
  const Operation& operation = operations_[at];
  const auto origin = std::find_if(origins_.begin(), origins_.end(), [&](const Origin& one) {
    return one.device == operation.device;
  });
  const absl::StatusOr<double> start =
      operation.device->SecondsBetween(origin->event.get(), operation.begins.get());
  if (!start.ok()) return start.status();
  const absl::StatusOr<double> end =
      operation.device->SecondsBetween(origin->event.get(), operation.ends.get());
  if (!end.ok()) return end.status();
  return Times{*start, *end};
}

}  // namespace tidepool::execute
