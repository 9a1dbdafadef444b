// SPDX-License-Identifier: Apache-2.0
// The executor of schedules with fixed addresses: queues a plan that was made before. Memory, host
// memory, streams and events are taken once.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_FIXED_EXECUTOR_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_FIXED_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lib/training/execute/device_resources.h"
#include "lib/training/execute/queue_plan.h"
#include "lib/training/execute/stamps.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/program.h"

namespace tidepool::execute {

class FixedExecutor final : public Executor {
 public:
  // The program is lowered from the graphs and the schedule; there are as many devices as the
  // schedule has.
  FixedExecutor(absl::Span<Device* const> devices, absl::Span<const TaskGraph> graphs,
                const Schedule& schedule, Program program, LaunchTask launch, FillHome fill,
                const ExecutorOptions& options);
  ~FixedExecutor() override;

  // Takes memory, streams and events.
  absl::Status Start();
  absl::StatusOr<Timeline> Run() override;
  absl::Status Reschedule(const Schedule& schedule) override;

 private:
  absl::Status Perform(std::size_t at);
  absl::Status Work(const QueuedOperation& operation);
  absl::Status Copy(const QueuedOperation& operation);
  absl::Status Add(const QueuedOperation& operation);
  absl::Status Fill(const HomeFill& fill);
  absl::Status Measured(std::size_t at, const QueuedOperation& operation);
  void Abandon();
  absl::StatusOr<Timeline> Iterate();
  absl::Status CreateStamps();
  absl::Status BeginStamps();
  absl::StatusOr<Timeline> Measure() const;
  absl::Status ReadStamps(Timeline& timeline) const;

  const std::vector<TaskGraph> graphs_;
  const Schedule schedule_;
  const Program program_;
  const LaunchTask launch_;
  const FillHome fill_;
  const CopyCompressed copy_compressed_;
  const AddReceived add_received_;
  const bool measures_;
  const std::function<double()> clock_;
  const std::function<void(std::size_t)> on_step_;
  DeviceResources resources_;
  QueuePlan plan_;
  bool is_fresh_ = true;  // weights are not filled yet
  // The current iteration.
  double begin_ = 0;
  std::unique_ptr<Stamps> stamps_;  // null: not measured
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_FIXED_EXECUTOR_H_
