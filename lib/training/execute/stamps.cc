// SPDX-License-Identifier: Apache-2.0
// Creates events only once, so that iterations need not.
#include "lib/training/execute/stamps.h"

#include <algorithm>
#include <chrono>
#include <utility>

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

Stamps::Stamps(std::size_t steps, std::function<double()> clock)
    : ends_(std::make_shared<Ends>(
          Ends{.clock = std::move(clock), .seconds = decltype(Ends::seconds)(steps)})),
      steps_(steps) {}

Stamps::~Stamps() {
  for (const Step& step : steps_) {
    DestroyTimed(step.device, step.begins);
    DestroyTimed(step.device, step.ends);
  }
  for (const Origin& origin : origins_) DestroyTimed(origin.device, origin.event);
}

void Stamps::Begin() {
  ends_->begin = ends_->clock();
  std::fill(ends_->seconds.begin(), ends_->seconds.end(), std::nullopt);
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

absl::StatusOr<CopyWatch> Stamps::Watch(std::size_t at, Device& device) {
  Step& step = steps_[at];
  step.device = &device;
  absl::Status status = CreateTimed(device, step.begins);
  if (status.ok()) status = CreateTimed(device, step.ends);
  if (!status.ok()) return status;
  return CopyWatch{.begins = step.begins, .ends = step.ends, .ended = [ends = ends_, at] {
                     ends->seconds[at] = ends->clock() - ends->begin;
                   }};
}

absl::StatusOr<Stamps::Times> Stamps::Of(std::size_t at) const {
  const Step& step = steps_[at];
  if (step.device == nullptr) return absl::FailedPreconditionError("the step has no work");
  const absl::StatusOr<double> start = SecondsOf(*step.device, step.begins);
  if (!start.ok()) return start.status();
  const std::optional<double>& ended = ends_->seconds[at];
  if (ended.has_value()) return Times{*start, *ended};
  const absl::StatusOr<double> end = SecondsOf(*step.device, step.ends);
  if (!end.ok()) return end.status();
  return Times{*start, *end};
}

absl::StatusOr<double> Stamps::SecondsOf(const Device& device, Event event) const {
  const auto origin = std::find_if(origins_.begin(), origins_.end(),
                                   [&](const Origin& one) { return one.device == &device; });
  return origin->device->SecondsBetween(origin->event, event);
}

}  // namespace tidepool::execute
