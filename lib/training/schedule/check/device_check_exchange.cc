// SPDX-License-Identifier: Apache-2.0
// Exchanges between devices: gradients are complete and added once, and weights with new values
// arrive after the tasks that need the old ones.
#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/check/device_check.h"

namespace tidepool::schedule {

DeviceSet DeviceCheck::AllDevices() const {
  DeviceSet all = 0;
  for (const std::size_t device : devices_) all |= SetOf(device);
  return all;
}

bool DeviceCheck::IsGradient(std::size_t data) const {
  return graph_->data[data].kind == DataKind::kWeightGradient;
}

absl::Status DeviceCheck::CheckBothSides(const ScheduleStep& step) {
  if (!IsLastRound() || rounds_[round_].times != 1) {
    return Wrong("in round ", round_, " of ", rounds_.size(), ", which runs ",
                 rounds_[round_].times, " times, expected exchanges once, in the last round");
  }
  for (const std::size_t device : {step.source, step.device}) {
    if (places_.At(device, step.index).device.bytes.Covers(RangeOf(step))) continue;
    return Wrong("the data on device ", device, Past(device, step.index),
                 ", expected the bytes to have memory there");
  }
  return absl::OkStatus();
}

// The gradient is that of the whole round, and of all rounds before.
absl::Status DeviceCheck::CheckGradient(std::size_t device, std::size_t data) {
  const DataValue& value = places_.At(device, data).device.value;
  if (value.version != versions_[data].after_round) {
    return Wrong(
        "the gradient of device ", device,
        value.version < versions_[data].after_round ? " is not ready" : " was changed by an update",
        ", expected it after the tasks of its round, and before updates");
  }
  if (value.since == 0) return absl::OkStatus();
  return Wrong("the gradient of device ", device, " lacks those of the first ", value.since,
               " rounds, expected the sum of all rounds");
}

// Counts the uses of data by tasks of a round; updates come after them.
std::vector<std::size_t> DeviceCheck::UsesInRound(const TaskGraph& graph) {
  std::vector<std::size_t> uses(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    if (task.phase == TaskPhase::kUpdate) continue;
    for (const std::size_t data : graph::InputsOf(task)) ++uses[data];
  }
  return uses;
}

absl::Status DeviceCheck::CheckNewValues(const ScheduleStep& step) {
  const DataValue& sent = places_.At(step.source, step.index).device.value;
  const DataPlace& place = places_.At(step.device, step.index);
  const ByteRange range = RangeOf(step);
  const bool is_whole = range.begin == 0 && range.end == graph_->data[step.index].bytes;
  if (!LivesAcrossRounds(graph_->data[step.index]) || !is_whole) {
    return Wrong(
        "expected all bytes of a weight or of the state of an optimizer, or some of a "
        "weight gradient");
  }
  if (!sent.is_written() || sent.version < place.device.value.version) {
    return Wrong("the values on device ", step.source,
                 sent.is_written() ? " are older" : " are not there", ", expected newer ones");
  }
  const std::size_t done = place.done - place.updates_done;
  if (sent.version == place.device.value.version || done >= round_uses_[step.index]) {
    return absl::OkStatus();
  }
  return Wrong("task ", TaskName(NextUser(step.device, step.index)),
               " needs the values before, expected that task before");
}

absl::Status DeviceCheck::Receive(const ScheduleStep& step) {
  absl::Status status = CheckBothSides(step);
  if (!status.ok()) return status;
  DataPlace& place = places_.At(step.device, step.index);
  if (IsGradient(step.index)) {
    for (const std::size_t device : {step.source, step.device}) {
      if (status.ok()) status = CheckGradient(device, step.index);
    }
    if (!status.ok()) return status;
    GradientsOf(step.device, step.index)
        .Replace(RangeOf(step), GradientsOf(step.source, step.index));
    place.host = {};
  } else {
    status = CheckNewValues(step);
    if (!status.ok()) return status;
    place.device.value = places_.At(step.source, step.index).device.value;
  }
  NoteMove(place);
  return absl::OkStatus();
}

absl::Status DeviceCheck::AddFrom(const ScheduleStep& step) {
  if (!IsGradient(step.index)) {
    return Wrong("the data is no weight gradient, expected one: devices add nothing else");
  }
  absl::Status status = CheckBothSides(step);
  for (const std::size_t device : {step.source, step.device}) {
    if (status.ok()) status = CheckGradient(device, step.index);
  }
  if (!status.ok()) return status;
  GradientParts& own = GradientsOf(step.device, step.index);
  const GradientParts& sent = GradientsOf(step.source, step.index);
  if (const DeviceSet both = own.InBoth(RangeOf(step), sent); both != 0) {
    return Wrong("both sums have the gradient of device ", std::countr_zero(both),
                 ", expected each gradient once");
  }
  own.Add(RangeOf(step), sent);
  DataPlace& place = places_.At(step.device, step.index);
  place.host = {};
  NoteMove(place);
  return absl::OkStatus();
}

// An update on a device sees the gradients of all devices; the host adds up those of each one.
absl::Status DeviceCheck::CheckGradientOfUpdate(const ScheduleStep& step, std::size_t device,
                                                std::size_t data) {
  if (devices_.size() == 1) return absl::OkStatus();
  if (step.device != kHostDevice && !LivesAcrossRounds(graph_->data[data])) {
    return Wrong("data ", DataName(data), " is that of one of ", devices_.size(),
                 " devices, expected the update on the host");
  }
  if (!IsGradient(data)) return absl::OkStatus();
  const bool is_on_host = step.device == kHostDevice;
  const GradientParts& gradients = GradientsOf(device, data);
  if (gradients.AreAll(is_on_host ? SetOf(device) : AllDevices()) ||
      (is_on_host && gradients.empty())) {
    return absl::OkStatus();
  }
  if (is_on_host) {
    return Wrong("data ", DataName(data), " of device ", device,
                 " has gradients of other devices, expected its own: the host adds them up");
  }
  return Wrong("data ", DataName(data), " of device ", device, " lacks gradients of some of ",
               devices_.size(), " devices, expected the sum of all, or the update on the host");
}

}  // namespace tidepool::schedule
