// SPDX-License-Identifier: Apache-2.0
// The choices of a schedule that bounds on its time keep.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_SCHEDULE_CHOICES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_SCHEDULE_CHOICES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

struct ScheduleChoices {
  // The first run of a task, with the graph of its round.
  struct FirstRun {
    std::size_t task = 0;
    const TaskGraph* graph = nullptr;
  };

  std::size_t device = kHostDevice;   // the first one that runs a task
  std::vector<FirstRun> order;        // on that device
  double round_seconds = 0;           // of the first runs in all rounds, by the fastest algorithms
  std::vector<bool> changed_by_host;  // by data
  std::vector<bool> is_received;      // by data: a device has it from another one
  bool has_streams = false;           // runs tasks beside each other
  bool has_reruns = false;            // runs a task again in its round
  bool has_compressed_copies = false;
  double least_density = 1;  // of the compressed copies
};

// Returns the choices of a schedule that is valid for these graphs. O(steps + uses).
ScheduleChoices ChoicesOf(absl::Span<const TaskGraph> graphs, const Schedule& schedule);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_SCHEDULE_CHOICES_H_
