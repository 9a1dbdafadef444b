// SPDX-License-Identifier: Apache-2.0
// Rounds: the state between them, and the homes of data after the last one.
#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "lib/training/schedule/check/device_check.h"

namespace tidepool::schedule {
namespace {

// Counts the versions of the next round from 0. Contents of an older version are of no use there.
void StartVersionsAnew(DataSide& side, int after_round) {
  if (side.bytes.empty() || side.value.version != after_round) {
    side.value = {};
  } else {
    side.value.version = 0;
  }
}

}  // namespace

template <typename... Parts>
absl::Status DeviceCheck::WrongRound(const Parts&... parts) const {
  const std::string when = schedule_.rounds.empty()
                               ? "the last step"
                               : absl::StrCat("step ", at_, ", the end of round ", round_);
  return absl::InvalidArgumentError(absl::StrCat("after ", when, ": ", parts...));
}

// Updates may run on one device for all of them, so they count where a graph has no other tasks.
bool DeviceCheck::RanInRound(std::size_t device) {
  const auto is_update = [](const GraphTask& task) { return task.phase == TaskPhase::kUpdate; };
  const bool updates_count = absl::c_all_of(graph_->tasks, is_update);
  for (std::size_t i = 0; i < ran_at_[device].size(); ++i) {
    const bool counts = updates_count || !is_update(graph_->tasks[i]);
    if (counts && ran_at_[device][i] != kNotYet) return true;
  }
  return false;
}

void DeviceCheck::StartData(std::size_t device, std::size_t data) {
  const GraphData& graph_data = graph_->data[data];
  DataPlace& place = places_.At(device, data);
  const bool is_new = round_ == 0 || !LivesAcrossRounds(graph_data);
  if (is_new) place = {};
  place.done = place.updates_done = 0;
  place.freed = false;
  const bool is_written = versions_[data].writer != DataVersions::kNoTask;
  if (!is_new || is_written || graph_data.before != DataHome::kHost) return;
  DataSide& host = places_.HostOf(device, data);
  host = {};
  host.bytes.Add(WholeOf(data));
  host.value.version = 0;
}

absl::Status DeviceCheck::StartRound(const ScheduleRound& round) {
  const TaskGraph& last = *graph_;
  graph_ = GraphOf(graphs_, round);
  for (const std::size_t device : devices_) {
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      StartData(device, data);
      if (graph_->data[data].bytes == last.data[data].bytes) continue;
      if (places_.At(device, data).is_nowhere()) continue;
      if (!LivesAcrossRounds(graph_->data[data])) continue;
      return WrongRound("data ", DataName(data), " has ", last.data[data].bytes,
                        " bytes before and ", graph_->data[data].bytes,
                        " after it, expected one size of data that stays");
    }
    ran_at_[device].assign(graph_->tasks.size(), kNotYet);
    if (round.times > 1) before_[device] = places_.OnDevice(device);
  }
  return absl::OkStatus();
}

absl::Status DeviceCheck::CheckTasksRan(const ScheduleRound& round) {
  for (const std::size_t device : devices_) {
    const bool ran = RanInRound(device);
    if (ran) passes_[device] += round.times;
    const bool must_have_run = ran || (IsLastRound() && passes_[device] == 0);
    for (std::size_t task = 0; task < graph_->tasks.size(); ++task) {
      const bool is_update = graph_->tasks[task].phase == TaskPhase::kUpdate;
      const bool has_run = is_update ? RanAnywhere(task) : RanAt(device, task) != kNotYet;
      if (has_run || !(is_update ? IsLastRound() : must_have_run)) continue;
      return WrongRound("task ", TaskName(task), " did not run on device ", device,
                        ", expected all tasks to run");
    }
  }
  return absl::OkStatus();
}

// Data that grows with the batch is that of one round, unless its home is the host.
absl::Status DeviceCheck::CheckRoundIsLeft(const ScheduleRound& round, std::size_t device,
                                           std::size_t data, bool ran) {
  if (LivesAcrossRounds(graph_->data[data])) return absl::OkStatus();
  const DataPlace& place = places_.At(device, data);
  const bool is_end = IsLastRound() && round.times == 1;
  if (ran && is_end) return absl::OkStatus();
  if (ran && graph_->data[data].after == DataHome::kHost) return CheckHome(device, data, ran);
  if (ran ? place.is_nowhere() : place.device.bytes.empty()) return absl::OkStatus();
  return WrongRound("data ", DataName(data), " of device ", device, Past(device, data),
                    ", expected it to be freed: the next round has data of its own");
}

absl::Status DeviceCheck::CheckHome(std::size_t device, std::size_t data, bool ran) {
  const DataHome home = graph_->data[data].after;
  const DataPlace& place = places_.At(device, data);
  const DataSide& host = places_.HostOf(device, data);
  if (home == DataHome::kNowhere) {
    if (place.is_nowhere()) return absl::OkStatus();
    return WrongRound("data ", DataName(data), " of device ", device, Past(device, data),
                      ", expected it to be freed");
  }
  // The device that runs all updates keeps the state of the optimizer.
  const bool is_elsewhere = devices_.size() > 1 && !place.began && place.is_nowhere() &&
                            graph_->data[data].kind == DataKind::kOptimizerState;
  if (is_elsewhere && home == DataHome::kDevice) return absl::OkStatus();
  const DataSide& side = home == DataHome::kHost ? host : place.device;
  const bool is_left = home == DataHome::kHost && !place.device.bytes.empty();
  const DataValue last = {ran ? versions_[data].after_iteration : 0, 0};
  if (side.bytes.Covers(WholeOf(data)) && side.value == last && !is_left) return absl::OkStatus();
  return WrongRound("data ", DataName(data), " of device ", device, Past(device, data),
                    ", expected its last values on the ", std::string(DataHomeName(home)),
                    is_left ? " alone" : "");
}

// Ends the round of data that stays. The first device that ran ends that of shared copies.
void DeviceCheck::EndData(std::size_t device, std::size_t data, bool is_first) {
  if (!LivesAcrossRounds(graph_->data[data])) return;
  DataPlace& place = places_.At(device, data);
  StartVersionsAnew(place.device, versions_[data].after_round);
  if (IsShared(graph_->data[data]) && !is_first) return;
  DataSide& host = places_.HostOf(device, data);
  StartVersionsAnew(host, versions_[data].after_round);
  if (!host.value.is_written()) host = {};
}

absl::Status DeviceCheck::CheckSameState(const ScheduleRound& round) {
  if (round.times == 1) return absl::OkStatus();
  for (const std::size_t device : devices_) {
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      const DataPlace& before = before_[device][data];
      const DataPlace& after = places_.At(device, data);
      if (!LivesAcrossRounds(graph_->data[data])) continue;
      if (before.device == after.device && before.host == after.host &&
          before.offset == after.offset) {
        continue;
      }
      return WrongRound("data ", DataName(data), " of device ", device,
                        " is not where it was before the round, which runs ", round.times,
                        " times, expected the same bytes, version and offset");
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceCheck::EndRound(const ScheduleRound& round) {
  if (absl::Status status = CheckTasksRan(round); !status.ok()) return status;
  for (const std::size_t device : devices_) {
    const bool ran = RanInRound(device);
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      absl::Status status = CheckRoundIsLeft(round, device, data, ran);
      const bool has_ended = IsLastRound() && (ran || LivesAcrossRounds(graph_->data[data]));
      if (status.ok() && has_ended) status = CheckHome(device, data, ran);
      if (!status.ok()) return status;
    }
  }
  bool is_first = true;
  for (const std::size_t device : devices_) {
    if (!RanInRound(device)) continue;
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      EndData(device, data, is_first);
    }
    is_first = false;
  }
  return CheckSameState(round);
}

}  // namespace tidepool::schedule
