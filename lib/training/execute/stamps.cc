// SPDX-License-Identifier: Apache-2.0
// Creates events only once, so that iterations need not.
#include "lib/training/execute/stamps.h"

#include <algorithm>
#include <chrono>

namespace tidepool::execute {
namespace {

// An event that the device refuses to destroy is lost: no caller could act on the error.
void DestroyTimed(Device* device, Event event) {
  if (event != Event()) device->DestroyEvent(event).IgnoreError();
}

absl::Status CreateTimed(Device& device, Event& event) {
  if (event != Event()) return absl::OkStatus();
  const absl::StatusOr<Event> created = device.CreateEvent(EventKind::kTimed);
  if (created.ok()) event = *created;
  return created.status();
}

}  // namespace

std::function<double()> ClockOf(const ExecutorOptions& options) {
  if (options.clock != nullptr) return options.clock;
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

Stamps::~Stamps() {
  for (const Operation& operation : operations_) {
    DestroyTimed(operation.device, operation.marks.begins);
    DestroyTimed(operation.device, operation.marks.ends);
  }
  for (const Origin& origin : origins_) DestroyTimed(origin.device, origin.event);
}

void Stamps::Begin() {
  for (Origin& origin : origins_) origin.has_begun = false;
}

absl::Status Stamps::Begin(Device& device, Stream stream) {
  auto origin = std::find_if(origins_.begin(), origins_.end(),
                             [&](const Origin& one) { return one.device == &device; });
  if (origin == origins_.end()) origin = origins_.insert(origin, Origin{.device = &device});
  if (origin->has_begun) return absl::OkStatus();
  absl::Status status = CreateTimed(device, origin->event);
  if (status.ok()) status = device.RecordEvent(origin->event, stream);
  origin->has_begun = status.ok();
  return status;
}

absl::StatusOr<Stamps::Marks> Stamps::Of(std::size_t at, Device& device) {
  Operation& operation = operations_[at];
  operation.device = &device;
  absl::Status status = CreateTimed(device, operation.marks.begins);
  if (status.ok()) status = CreateTimed(device, operation.marks.ends);
  if (!status.ok()) return status;
  return operation.marks;
}

absl::StatusOr<Stamps::Times> Stamps::Read(std::size_t at) const {
  const Operation& operation = operations_[at];
  const auto origin = std::find_if(origins_.begin(), origins_.end(), [&](const Origin& one) {
    return one.device == operation.device;
  });
  const absl::StatusOr<double> start =
      operation.device->SecondsBetween(origin->event, operation.marks.begins);
  if (!start.ok()) return start.status();
  const absl::StatusOr<double> end =
      operation.device->SecondsBetween(origin->event, operation.marks.ends);
  if (!end.ok()) return end.status();
  return Times{*start, *end};
}

}  // namespace tidepool::execute
