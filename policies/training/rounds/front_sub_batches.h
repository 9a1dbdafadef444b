// SPDX-License-Identifier: Apache-2.0
// The sub-batches of a front, with bounds of their memory and time.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_FRONT_SUB_BATCHES_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_FRONT_SUB_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/schedule_request.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::rounds {

// The tasks of an iteration in rounds of some samples on each device, one after the other.
class FrontSubBatch {
 public:
  explicit FrontSubBatch(std::int64_t samples) : samples_(samples) {}

  // Adds the tasks of a round that has `times` repetitions. Updates run once, if `has_updates`.
  // Data that stays has memory at the end of a round, and may leave between its uses. O(graph).
  void AddRound(const TaskGraph& graph, std::int64_t alignment, StayingData staying,
                std::int64_t times, bool has_updates);

  std::int64_t samples() const { return samples_; }
  // Returns the most memory of a task or of the data that stays: no schedule needs less.
  std::int64_t least_bytes() const { return least_bytes_; }
  // Returns the memory in which `modnn` has a schedule: data that stays is beside each task.
  std::int64_t modnn_bytes() const { return modnn_bytes_; }
  // Returns the seconds of the fastest algorithms.
  double ideal_seconds() const { return ideal_seconds_; }
  // Returns seconds that no schedule in a memory beats: each task alone by the fastest algorithm
  // that fits. Infinity where a task does not fit. O(tasks x algorithms).
  double LeastSeconds(std::int64_t memory) const;
  // Returns the sum of bounds of the rounds, each with its copies (lower_bound.h). Schedules can be
  // a little faster, because copies of a round may begin within the one before.
  double EstimatedSeconds(std::int64_t memory, Machine machine, bool recomputes) const;

 private:
  struct Round {
    TaskGraph graph;
    double times = 0;
  };
  struct Choice {
    std::int64_t bytes = 0;
    double seconds = 0;
  };

  std::int64_t samples_;
  std::int64_t least_bytes_ = 0;
  std::int64_t modnn_bytes_ = 0;
  double ideal_seconds_ = 0;
  std::vector<std::vector<Choice>> tasks_;  // the algorithms of each, for all repetitions
  std::vector<Round> rounds_;
};

// Returns the sub-batches that are admissible for a graph, or for a family with `batch` samples on
// each device, the least first: those of the checked request. `has_rounds`: whether the batch may
// be divided. Errors are GraphAt's where no sub-batch has costs.
absl::StatusOr<std::vector<FrontSubBatch>> FindSubBatches(const GraphOrFamily& graphs,
                                                          std::int64_t batch,
                                                          const ScheduleRequest& request,
                                                          bool has_rounds);

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_FRONT_SUB_BATCHES_H_
