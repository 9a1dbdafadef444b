// SPDX-License-Identifier: Apache-2.0
// A schedule with all that an executor needs to queue it, iteration by iteration.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_PREPARED_SCHEDULE_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_PREPARED_SCHEDULE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/memory/device/owned.h"
#include "lib/training/execute/device_resources.h"
#include "lib/training/execute/host_copies.h"
#include "lib/training/execute/queue_plan.h"
#include "lib/training/execute/stamps.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// No work is queued when it is destroyed. `graphs` and the devices outlive it.
struct PreparedSchedule {
  PreparedSchedule(absl::Span<const TaskGraph> graphs, const Schedule& of, Program lowered,
                   bool host_compresses)
      : schedule(of),
        program(std::move(lowered)),
        copies(graphs, schedule, program, host_compresses) {}

  const Schedule schedule;
  const Program program;  // of the schedule
  const HostCopies copies;
  std::shared_ptr<HostArea> host;  // of the copies, and maybe larger
  QueuePlan plan;
  std::vector<device::OwnedEvent> events;  // of the plan
  std::unique_ptr<Stamps> stamps;          // by operation of the plan; null: not measured
};

// Returns OK if data that stays on the devices or on the host from one iteration to the next lies
// at the same addresses in both schedules. InvalidArgument otherwise, with its name and both
// places.
absl::Status CheckHomes(const TaskGraph& graph, const PreparedSchedule& before,
                        const PreparedSchedule& after);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_PREPARED_SCHEDULE_H_
