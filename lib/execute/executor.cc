// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of executors and makes them.
#include "tidepool/schedule/executor.h"

#include <utility>

#include "lib/execute/pool_executor.h"
#include "lib/schedule/check_pool.h"

namespace tidepool {

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Device* device, Offloader* offloader,
                                                           const TaskGraph& graph,
                                                           const Schedule& schedule,
                                                           LaunchTask launch, FillData fill,
                                                           const ExecutorOptions& options) {
  if (device == nullptr || offloader == nullptr || launch == nullptr) {
    return absl::InvalidArgumentError(
        "a null pointer, expected a device, an offloader, and a function that launches tasks");
  }
  absl::Status status = schedule::CheckIsForPool(schedule, "the executor");
  if (status.ok()) status = ValidateSchedule(graph, schedule);
  if (!status.ok()) return status;
  auto executor = std::make_unique<execute::PoolExecutor>(
      *device, *offloader, graph, schedule, std::move(launch), std::move(fill), options);
  if (status = executor->Start(); !status.ok()) return status;
  return executor;
}

}  // namespace tidepool
