// SPDX-License-Identifier: Apache-2.0
// The planner's search, as schedules use it.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_SCHEDULE_PLANNING_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_SCHEDULE_PLANNING_H_

#include <cstdint>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/training/schedule/addresses/device_stays.h"
#include "tidepool/trace/plan.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns the steps of ejection searches, each counted once for each buffer, in these seconds of
// work of a usual core.
constexpr double StepsIn(double work_seconds) { return 1e8 * work_seconds; }

// A stay by its number among those of its datum, or of the workspaces of its task.
struct StayKey {
  StepKind kind = StepKind::kAllocate;  // kRun: a workspace; kAdd: the buffer of an addition
  std::size_t index = 0;                // of the datum or the task
  std::size_t number = 0;

  friend bool operator==(const StayKey&, const StayKey&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const StayKey& key) {
    return H::combine(std::move(hash), key.kind, key.index, key.number);
  }
};
using StayOffsets = absl::flat_hash_map<StayKey, std::int64_t>;

// The limits of a search for a plan.
struct PlanEffort {
  double work_seconds = 0.1;  // of the search in layers, in seconds of a usual core
  double most_seconds = 1;    // of that search, by the clock
  // Of the planner's whole search after it, by the clock; 0: that search is left out.
  double whole_seconds = 1;
  std::uint64_t seed = 1;
  std::stop_token stop = {};
  WorkspaceLife workspaces = WorkspaceLife::kOneStep;
  // The plan of a similar schedule, from which the search for stays goes on, in place of all other
  // searches; null: there is no such plan.
  const StayOffsets* start_offsets = nullptr;
};

// Returns the first plan, made at once. Where that exceeds `memory_bytes` and a lower one is not
// ruled out, searches in layers (plan::PlanInLayers), and then for any plan.
absl::StatusOr<Plan> PlanBuffersWithin(const PlanProblem& problem, std::int64_t memory_bytes,
                                       const PlanEffort& effort = {});

// A stay with bytes above the memory, or a part of one.
struct HighStay {
  StayKey key = {};
  std::int64_t first_step = 0;  // -1: it is there before all steps
  std::int64_t end_step = 0;    // it is no longer there
  std::int64_t bytes_above = 0;
};

// A schedule with fixed addresses.
struct FixedSchedule {
  bool fits = false;
  Schedule schedule = {};                 // where it fits
  std::size_t device = 0;                 // the first one with a plan that does not fit
  std::int64_t height = 0;                // of its plan, or the most of all
  StayOffsets offsets = {};               // of its plan, or that of the last device
  std::vector<HighStay> high_stays = {};  // where it does not fit
};

// Returns ResourceExhausted with the device and the height of a plan that does not fit.
absl::Status DoesNotFit(const FixedSchedule& fixed, absl::Span<const std::int64_t> memory_bytes);

// FixAddresses, with a limit for each of the up to three searches. A plan that does not fit is no
// error.
absl::StatusOr<FixedSchedule> FixAddressesWithin(const PlanEffort& effort,
                                                 absl::Span<const TaskGraph> graphs,
                                                 const Schedule& schedule, std::int64_t alignment,
                                                 absl::Span<const std::int64_t> memory_bytes);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_SCHEDULE_PLANNING_H_
