// SPDX-License-Identifier: Apache-2.0
// Tasks: the data that they use must be there, in the version that the order of the graph asks for.
#include <algorithm>
#include <string>

#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/check/device_check.h"

namespace tidepool::schedule {
namespace {

bool Holds(const std::vector<std::size_t>& uses, std::size_t data) {
  return std::find(uses.begin(), uses.end(), data) != uses.end();
}

bool UsesData(const GraphTask& task, std::size_t data) {
  return Holds(task.writes, data) || Holds(task.updates, data) || Holds(task.reads, data);
}

}  // namespace

bool DeviceCheck::RanAnywhere(std::size_t task) {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](std::size_t device) { return RanAt(device, task) != kNotYet; });
}

std::vector<std::size_t> DeviceCheck::InstancesOf(const ScheduleStep& step) const {
  if (step.device == kHostDevice) return devices_;
  return {step.device};
}

DataSide& DeviceCheck::SideOf(const ScheduleStep& step, std::size_t device, std::size_t data) {
  return step.device == kHostDevice ? places_.HostOf(device, data)
                                    : places_.At(device, data).device;
}

// Returns the task that makes this version of the data, by the order of the graph.
std::size_t DeviceCheck::TaskOfVersion(std::size_t data, int version) const {
  const bool is_given = versions_[data].writer == DataVersions::kNoTask;
  if (!is_given && version <= 1) return versions_[data].writer;
  int left = version - (is_given ? 0 : 1);
  std::size_t task = 0;
  while (!Holds(graph_->tasks[task].updates, data) || --left > 0) ++task;
  return task;
}

// Returns the first task that did not run in this round and that uses `data`; there is such a task.
std::size_t DeviceCheck::NextUser(std::size_t device, std::size_t data) {
  std::size_t task = 0;
  while (RanAt(device, task) != kNotYet || !UsesData(graph_->tasks[task], data)) ++task;
  return task;
}

absl::Status DeviceCheck::CheckRerun(const ScheduleStep& step) {
  const std::size_t ran_at = RanAt(InstancesOf(step).front(), step.index);
  if (ran_at == kNotYet || graph_->tasks[step.index].may_rerun) return absl::OkStatus();
  return Wrong("the task ran at step ", ran_at,
               ", expected one run of a task that may not run again");
}

// Updates see the gradients of all rounds and all devices.
absl::Status DeviceCheck::CheckUpdateTask(const ScheduleStep& step) const {
  if (graph_->tasks[step.index].phase != TaskPhase::kUpdate) return absl::OkStatus();
  if (!IsLastRound() || rounds_[round_].times != 1) {
    return Wrong("an update in round ", round_, " of ", rounds_.size(), ", which runs ",
                 rounds_[round_].times, " times, expected updates once, in the last round");
  }
  return absl::OkStatus();
}

absl::Status DeviceCheck::CheckHostTask(const ScheduleStep& step) const {
  if (step.device != kHostDevice) return absl::OkStatus();
  if (graph_->tasks[step.index].phase == TaskPhase::kUpdate) return absl::OkStatus();
  return Wrong("the host runs it, expected a device: only updates run on the host");
}

absl::Status DeviceCheck::CheckVersion(std::size_t device, const Use& use) {
  const DataValue& value = use.side->value;
  if (value.version == use.need.version) return absl::OkStatus();
  if (use.need.version == 0 && !value.is_written()) {
    return Wrong("data ", DataName(use.data), ", which the task ", use.verb, ",",
                 Past(device, use.data), " without its values, expected them to be copied in");
  }
  if (value.version < use.need.version) {
    return Wrong("data ", DataName(use.data), ", which the task ", use.verb,
                 ", is not ready, expected task ",
                 TaskName(TaskOfVersion(use.data, use.need.version)), " before");
  }
  return Wrong("data ", DataName(use.data), ", which the task ", use.verb, ", was changed by task ",
               TaskName(TaskOfVersion(use.data, value.version)),
               ", expected the data before that task");
}

absl::Status DeviceCheck::CheckUse(std::size_t device, const Use& use) {
  const bool is_on_host = use.side == &places_.HostOf(device, use.data);
  if (!use.side->bytes.Covers(WholeOf(use.data))) {
    return Wrong("data ", DataName(use.data), ", which the task ", use.verb, ",",
                 Past(device, use.data), ", expected all of it on ",
                 is_on_host ? "the host" : "the device");
  }
  if (absl::Status status = CheckVersion(device, use); !status.ok()) return status;
  const bool is_partial_sum =
      graph_->data[use.data].kind == DataKind::kWeightGradient && use.side->value.since > 0;
  const bool is_update = graph_->tasks[schedule_.steps[at_].index].phase == TaskPhase::kUpdate;
  if (!is_update) return absl::OkStatus();
  if (!is_partial_sum) return CheckGradientOfUpdate(schedule_.steps[at_], device, use.data);
  return Wrong("data ", DataName(use.data), " lacks the gradients of the first ",
               use.side->value.since, " rounds, expected the sum of all rounds");
}

// An update changes the data, so all tasks that use it before come first.
absl::Status DeviceCheck::CheckUsesBefore(std::size_t device, const Use& use) {
  if (places_.At(device, use.data).done >= use.need.uses) return absl::OkStatus();
  return Wrong("data ", DataName(use.data), " is needed unchanged by task ",
               TaskName(NextUser(device, use.data)), ", expected that task before");
}

absl::Status DeviceCheck::CheckWrite(const ScheduleStep& step, std::size_t device,
                                     std::size_t data) {
  const DataSide& side = SideOf(step, device, data);
  if (step.device != kHostDevice && !side.bytes.Covers(WholeOf(data))) {
    return Wrong("data ", DataName(data), ", which the task writes,", Past(device, data),
                 ", expected all of it on the device");
  }
  const bool adds_twice = graph_->data[data].kind == DataKind::kWeightGradient &&
                          side.value.version > 0 && side.value.since < passes_[device];
  if (!adds_twice) return absl::OkStatus();
  return Wrong("the task added to ", DataName(data), " at step ", RanAt(device, step.index),
               ", expected it to add once in a round");
}

absl::Status DeviceCheck::CheckUses(const ScheduleStep& step, std::size_t device) {
  const GraphTask& task = graph_->tasks[step.index];
  const bool is_first = RanAt(device, step.index) == kNotYet;
  const DataVersions::Need* need = versions_.NeedsOf(step.index);
  for (const std::size_t data : task.reads) {
    const Use use = {data, &SideOf(step, device, data), *need++, "reads"};
    if (absl::Status status = CheckUse(device, use); !status.ok()) return status;
  }
  for (const std::size_t data : task.updates) {
    const Use use = {data, &SideOf(step, device, data), *need++, "updates"};
    absl::Status status = CheckUse(device, use);
    if (status.ok() && is_first) status = CheckUsesBefore(device, use);
    if (!status.ok()) return status;
  }
  for (const std::size_t data : task.writes) {
    if (absl::Status status = CheckWrite(step, device, data); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A weight gradient that has the sum of earlier rounds is added to; all other data is replaced.
void DeviceCheck::Perform(const ScheduleStep& step, std::size_t device) {
  const GraphTask& task = graph_->tasks[step.index];
  const bool is_first = RanAt(device, step.index) == kNotYet;
  const bool is_update = task.phase == TaskPhase::kUpdate;
  for (const std::size_t data : graph::InputsOf(task)) {
    DataPlace& place = places_.At(device, data);
    place.done += is_first ? 1 : 0;
    place.updates_done += is_first && is_update ? 1 : 0;
  }
  const bool is_first_instance = InstancesOf(step).front() == device;
  for (const std::size_t data : task.updates) {
    const bool was_updated = IsShared(graph_->data[data]) && !is_first_instance;
    if (!was_updated) ++SideOf(step, device, data).value.version;
  }
  for (const std::size_t data : task.writes) {
    DataSide& side = SideOf(step, device, data);
    const bool is_sum = graph_->data[data].kind == DataKind::kWeightGradient;
    const bool adds = is_sum && side.value.version == 0;
    side.value = {1, adds ? side.value.since : is_sum ? passes_[device] : 0};
    side.bytes.Add(WholeOf(data));
    if (is_sum && devices_.size() > 1) NoteGradient(device, data);
  }
}

// Notes that the gradient of the device alone is there again. A sum on the host is no copy of it.
void DeviceCheck::NoteGradient(std::size_t device, std::size_t data) {
  GradientParts& gradients = GradientsOf(device, data);
  if (!gradients.AreAll(SetOf(device))) places_.At(device, data).host = {};
  gradients.Reset(graph_->data[data].bytes, SetOf(device));
}

absl::Status DeviceCheck::Run(const ScheduleStep& step) {
  absl::Status status = CheckHostTask(step);
  if (status.ok()) status = CheckUpdateTask(step);
  if (status.ok()) status = CheckRerun(step);
  const std::vector<std::size_t> instances = InstancesOf(step);
  for (const std::size_t device : instances) {
    if (status.ok()) status = CheckUses(step, device);
  }
  if (!status.ok()) return status;
  if (graph_->tasks[step.index].phase == TaskPhase::kUpdate && !RanAnywhere(step.index)) {
    for (const std::size_t data : graph::InputsOf(graph_->tasks[step.index])) {
      ++updates_begun_[data];
    }
  }
  for (const std::size_t device : instances) Perform(step, device);
  for (const std::size_t device : instances) {
    if (RanAt(device, step.index) == kNotYet) RanAt(device, step.index) = at_;
  }
  return absl::OkStatus();
}

}  // namespace tidepool::schedule
