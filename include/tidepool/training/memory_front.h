// SPDX-License-Identifier: Apache-2.0
// The front of time against memory of a training iteration: sub-batch, transfers, tasks that run
// again and algorithms chosen together, by simulation.
#ifndef TIDEPOOL_TRAINING_MEMORY_FRONT_H_
#define TIDEPOOL_TRAINING_MEMORY_FRONT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {

struct FrontOptions {
  // The memories that are tried, in any order. Empty: `memories` of them in equal ratios, from a
  // bound of the least memory of all sub-batches to that of all data at once, or to the memory of
  // the machine's devices if that is less, but not 0. The least one with a schedule is then found
  // by bisection.
  std::vector<std::int64_t> memory_bytes = {};
  int memories = 16;  // 1 or more
  // Of each search; but the time limit and the work are those of the whole front. All memories get
  // a round of a search, then one with twice the work, until the work is used up.
  // `known` has no effect.
  BestOptions best = {.time_limit_seconds = 5};
  ModnnOptions modnn = {};
};

// An iteration that no other one of the front beats in both memory and time.
struct FrontPoint {
  std::int64_t memory_bytes = 0;  // that a device needs: the highest end of an address
  double seconds = 0;
  std::int64_t recomputed_tasks = 0;  // runs after the first in a round, of all rounds and devices
  std::int64_t workspace_bytes = 0;   // the largest
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  MadeSchedule made = {};  // on devices with that memory
};

struct FrontMemory {
  std::int64_t memory_bytes = 0;
  // No schedule of these sub-batches is faster in that memory. It is the time of all tasks, each by
  // the fastest algorithm that fits with the data of the task. Infinity where each sub-batch has a
  // task that does not fit, or more data at home on the device.
  double lower_bound_seconds = 0;
};

struct MemoryFront {
  std::vector<FrontPoint> points;     // by ascending memory, and so by descending time
  std::vector<FrontMemory> memories;  // that were tried, in ascending order
  double ideal_seconds = 0;           // of the whole batch at once, by the fastest algorithms
  bool stopped = false;               // a stop or the time limit ended the search before its work
};

// Returns the front of a valid graph, or of a valid family at the batch of the request.
//
// At each memory and each admissible sub-batch that could be faster than all schedules so far, it
// makes the schedules of "modnn" and of "best", which begins with that of "modnn" in each round.
// The planner gives the schedules of "best" their addresses, so that no data is copied only because
// its addresses are needed. If the planner finds none, those of Algorithm 1 remain. A schedule
// serves all larger memories too, so time never grows with memory.
//
// Admissible sub-batches, for kLargestSubBatch: the batch of a device, and the regular ones below
// (RegularSubBatch). Otherwise the request's alone. Only the whole batch where options refuse ghost
// batch normalisation. The same seed gives the same front, unless a stop or the time limit ends it.
//
// ResourceExhausted when no schedule fits into any of the memories, with the largest of them and
// the reason of the last try. InvalidArgument for memories out of range, for options in the request
// (those above count), and for pools and pages; errors of MakeSchedule. Cancelled when a stop comes
// before the first schedule. Thread-safe. A schedule and a simulation for each memory and
// sub-batch, and their searches.
TIDEPOOL_EXPORT absl::StatusOr<MemoryFront> MakeFront(const GraphOrFamily& graphs,
                                                      const ScheduleRequest& request,
                                                      const FrontOptions& options = {});

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_MEMORY_FRONT_H_
