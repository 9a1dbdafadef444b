// SPDX-License-Identifier: Apache-2.0
// Devices and an executor for a schedule with fixed addresses. Tasks take the times of the program.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/host_compressor.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"
#include "trace_replay/offload/sparse_tasks.h"

namespace tidepool::tool {

class FixedIteration {
 public:
  // `device` is "host" or "cuda", which has one GPU. Tasks take the seconds of the program. On the
  // host each device has a link of its own with the rate of its copies out. If the schedule has
  // compressed copies there, a HostCompressor makes them; tasks of the first iteration fill the
  // data that they write with the highest density of these copies, so that it has one. `graphs`
  // outlive the iteration.
  // Errors are those of LowerSchedule and Executor::CreateFixed.
  static absl::StatusOr<std::unique_ptr<FixedIteration>> Create(
      const std::string& device, absl::Span<const TaskGraph> graphs, const Schedule& schedule,
      const Machine& machine, std::function<void(std::size_t)> on_step);

  absl::StatusOr<Timeline> Run();
  std::string device_name() const { return devices_.front()->name(); }

 private:
  FixedIteration(absl::Span<const TaskGraph> graphs, Program program)
      : graphs_(graphs), program_(std::move(program)) {}

  absl::Status MakeDevices(const std::string& device, const Schedule& schedule,
                           const Machine& machine);
  absl::Status MakeCompressor(const Schedule& schedule, const Machine& machine);
  absl::Status Launch(const TaskLaunch& launch);
  absl::Status Add(const ReceivedGradient& gradient);
  absl::Status WriteWords(const TaskLaunch& launch);
  absl::Status Fill(const HomeFill& fill);
  Device& DeviceOf(const TaskLaunch& launch) {
    return *devices_[launch.device == kHostDevice ? 0 : launch.device];
  }

  const absl::Span<const TaskGraph> graphs_;
  const Program program_;
  std::size_t next_ = 0;  // operation of the program
  bool is_first_ = true;  // no iteration has run
  WordPattern words_;     // of outputs; null: tasks write nothing
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<HostCompressor> compressor_;  // null: copies are raw
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_
