// SPDX-License-Identifier: Apache-2.0
// The checker of schedules: walks through the steps of each round
// once and keeps the places of all data. Rounds are compared with themselves instead of repeated.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DEVICE_CHECK_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DEVICE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/training/schedule/check/data_versions.h"
#include "lib/training/schedule/check/gradient_parts.h"
#include "lib/training/schedule/steps/data_places.h"
#include "lib/training/schedule/steps/rounds.h"
#include "lib/training/schedule/steps/step_text.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

class DeviceCheck {
 public:
  // The rounds are checked (CheckRounds), and so are the numbers of the devices of all steps.
  DeviceCheck(absl::Span<const TaskGraph> graphs, const Schedule& schedule);

  absl::Status Check();
  // Number of the step with the fault, or of the last step of the round with the fault.
  std::size_t at() const { return at_; }

 private:
  static constexpr std::size_t kNotYet = DataVersions::kNoTask;

  // A use of data by the task of the current step, on one side of the link.
  struct Use {
    std::size_t data = 0;
    DataSide* side = nullptr;
    DataVersions::Need need = {};
    const char* verb = "";
  };

  absl::Status CheckRound(const ScheduleRound& round);
  absl::Status CheckStep(const ScheduleStep& step);

  // Steps that move data (device_check_moves.cc).
  absl::Status Allocate(const ScheduleStep& step);
  absl::Status Free(const ScheduleStep& step);
  absl::Status Offload(const ScheduleStep& step);
  absl::Status Prefetch(const ScheduleStep& step);
  absl::Status Drop(const ScheduleStep& step);
  absl::Status CheckStay(const ScheduleStep& step, const DataPlace& place);
  bool MayDrop(const ScheduleStep& step, DataPlace& place);
  void NoteMove(DataPlace& place);
  ByteRange RangeOf(const ScheduleStep& step) const;
  std::string Past(std::size_t device, std::size_t data);

  // Exchanges between devices (device_check_exchange.cc).
  absl::Status Receive(const ScheduleStep& step);
  absl::Status AddFrom(const ScheduleStep& step);
  absl::Status CheckBothSides(const ScheduleStep& step);
  absl::Status CheckGradient(std::size_t device, std::size_t data);
  absl::Status CheckNewValues(const ScheduleStep& step);
  absl::Status CheckGradientOfUpdate(const ScheduleStep& step, std::size_t device,
                                     std::size_t data);
  DeviceSet AllDevices() const;
  bool IsGradient(std::size_t data) const;
  GradientParts& GradientsOf(std::size_t device, std::size_t data) {
    return gradients_[device * graph_->data.size() + data];
  }
  static std::vector<std::size_t> UsesInRound(const TaskGraph& graph);

  // Tasks (device_check_runs.cc).
  absl::Status Run(const ScheduleStep& step);
  absl::Status CheckRerun(const ScheduleStep& step);
  absl::Status CheckUpdateTask(const ScheduleStep& step) const;
  absl::Status CheckHostTask(const ScheduleStep& step) const;
  absl::Status CheckUses(const ScheduleStep& step, std::size_t device);
  absl::Status CheckUse(std::size_t device, const Use& use);
  absl::Status CheckVersion(std::size_t device, const Use& use);
  absl::Status CheckUsesBefore(std::size_t device, const Use& use);
  absl::Status CheckWrite(const ScheduleStep& step, std::size_t device, std::size_t data);
  void Perform(const ScheduleStep& step, std::size_t device);
  DataSide& SideOf(const ScheduleStep& step, std::size_t device, std::size_t data);
  // Returns the devices with the data that the task of the step uses.
  std::vector<std::size_t> InstancesOf(const ScheduleStep& step) const;
  std::size_t TaskOfVersion(std::size_t data, int version) const;
  std::size_t NextUser(std::size_t device, std::size_t data);
  std::size_t& RanAt(std::size_t device, std::size_t task) { return ran_at_[device][task]; }
  bool RanAnywhere(std::size_t task);
  void NoteGradient(std::size_t device, std::size_t data);

  // Rounds and homes (device_check_rounds.cc).
  absl::Status StartRound(const ScheduleRound& round);
  absl::Status EndRound(const ScheduleRound& round);
  absl::Status CheckTasksRan(const ScheduleRound& round);
  absl::Status CheckRoundIsLeft(const ScheduleRound& round, std::size_t device, std::size_t data,
                                bool ran);
  absl::Status CheckHome(std::size_t device, std::size_t data, bool ran);
  absl::Status CheckSameState(const ScheduleRound& round);
  void StartData(std::size_t device, std::size_t data);
  void EndData(std::size_t device, std::size_t data, bool is_first);
  bool RanInRound(std::size_t device);

  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return WrongStep(*graph_, schedule_, at_, parts...);
  }
  template <typename... Parts>
  absl::Status WrongRound(const Parts&... parts) const;
  std::string TaskName(std::size_t task) const { return schedule::TaskName(*graph_, task); }
  std::string DataName(std::size_t data) const { return schedule::DataName(*graph_, data); }
  ByteRange WholeOf(std::size_t data) const { return {0, graph_->data[data].bytes}; }
  bool IsLastRound() const { return round_ + 1 == rounds_.size(); }

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const std::vector<ScheduleRound> rounds_;
  const DataVersions versions_;
  std::vector<std::size_t> devices_;  // that run tasks, and device 0 if the host runs them all
  const TaskGraph* graph_;            // of the current round
  std::size_t round_ = 0;
  std::size_t at_ = 0;
  DataPlaces places_;
  std::vector<GradientParts> gradients_;    // by device and data
  std::vector<std::size_t> round_uses_;     // by data: reads and updates by tasks of a round
  std::vector<std::size_t> updates_begun_;  // by data: uses by updates that ran on any device
  // Steps of the first run in this round, by device and task.
  std::vector<std::vector<std::size_t>> ran_at_;
  std::vector<std::int64_t> passes_;  // by device: rounds with tasks, with their repetitions
  std::vector<std::vector<DataPlace>> before_;  // places before a repeated round, by device
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DEVICE_CHECK_H_
