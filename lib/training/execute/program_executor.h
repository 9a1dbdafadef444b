// SPDX-License-Identifier: Apache-2.0
// The executor: queues a plan that was made before. Memory, host memory, streams and events are
// taken once for a schedule.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_PROGRAM_EXECUTOR_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_PROGRAM_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lib/training/execute/device_resources.h"
#include "lib/training/execute/pipeline_copies.h"
#include "lib/training/execute/prepared_schedule.h"
#include "lib/training/execute/queue_plan.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/program.h"

namespace tidepool::execute {

class ProgramExecutor final : public Executor {
 public:
  // All schedules have as many devices as there are.
  ProgramExecutor(absl::Span<Device* const> devices, absl::Span<const TaskGraph> graphs,
                  const Machine& machine, LaunchTask launch, FillHome fill,
                  const ExecutorOptions& options);
  ~ProgramExecutor() override;

  // Takes memory, streams and events for a checked schedule and its program.
  absl::Status Start(const Schedule& schedule, Program program);
  absl::StatusOr<Timeline> Run() override;
  absl::Status Reschedule(const Schedule& schedule) override;

 private:
  absl::Status Perform(std::size_t at);
  absl::Status Work(const QueuedOperation& operation);
  absl::Status Copy(const QueuedOperation& operation);
  absl::Status CopyByPipeline(const QueuedOperation& operation);
  absl::Status Add(const QueuedOperation& operation);
  absl::Status Fill(const HomeFill& fill);
  absl::Status Measured(std::size_t at, const QueuedOperation& operation);
  void Abandon();
  absl::StatusOr<Timeline> Iterate();
  absl::Status Probe() const;
  absl::StatusOr<DensityEstimate> DensityOf(const QueuedOperation& copy) const;
  absl::StatusOr<std::unique_ptr<PreparedSchedule>> Prepare(const Schedule& schedule,
                                                            Program program);
  absl::Status TakeHostArea(PreparedSchedule& prepared);
  absl::Status CreateEvents(PreparedSchedule& prepared);
  absl::Status CreateStamps(PreparedSchedule& prepared);
  absl::Status BeginStamps(Stamps& stamps);
  absl::StatusOr<Timeline> Measure() const;
  absl::Status ReadStamps(Timeline& timeline) const;

  const std::vector<TaskGraph> graphs_;
  const Machine machine_;
  const LaunchTask launch_;
  const FillHome fill_;
  const ExecutorOptions options_;
  const std::function<double()> clock_;
  DeviceResources resources_;
  PipelineCopies pipeline_copies_;
  std::unique_ptr<PreparedSchedule> prepared_;  // null until Start ends
  bool is_fresh_ = true;                        // weights are not filled yet
  double begin_ = 0;                            // of the current iteration
  std::int64_t iteration_ = 0;                  // number of the next one
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_PROGRAM_EXECUTOR_H_
