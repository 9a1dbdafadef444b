// SPDX-License-Identifier: Apache-2.0
// Offload policies: from a task graph and a machine to a schedule. Pure functions: they touch no
// memory and no device, and no clock except the simulator's and that of a time limit.
#ifndef TIDEPOOL_TRAINING_OFFLOAD_POLICY_H_
#define TIDEPOOL_TRAINING_OFFLOAD_POLICY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/schedule_request.h"
#include "tidepool/training/timeline.h"

namespace tidepool {

struct OffloadPolicyInfo {
  std::string name;
  std::string description;  // for people, without the name
  PolicyOptions options;    // its defaults, of the type that it takes
  bool has_rounds = false;  // and several devices, fixed addresses and pages
  bool sends = true;        // data leaves for the host; of `best` only where BestOptions let it
};

// Returns the known policies, in the order in which texts list them:
// - "none": all data stays on the device.
// - "base": the memory manager that the papers of vDNN and vDNN++ compare with (vDNN++, section V),
//   a schedule with fixed addresses. All data has memory of its own for the whole iteration, but
//   gradients of layers take two chunks in turn, or more where more are live. The set kDynamic
//   takes the fastest algorithms that fit; other sets, orders, placements and densities have no
//   effect.
// - "vdnn": Rhu et al., "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient
//   Neural Network Design", MICRO 2016: each layer waits for the copies that it overlaps with.
// - "vdnn++": Shriram et al., "Dynamic memory management for GPU-based training of deep neural
//   networks", IPDPS 2019, section IV: no layer waits.
// - "modnn": Chen et al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics
//   Processing Units", IEEE TPDS 30(3), 2019, and DATE 2018: Algorithm 1, on any graph. It runs in
//   all memory from LeastMemory on, with fixed addresses. Data at home on the device after the
//   iteration stays.
// - "best": searches for the fastest iteration of any graph, over the data that is sent and the
//   tasks that run again. It also makes schedules of the other policies, with default options and
//   with a few others, those of pools with late drops, and takes one that is faster. "recompute"
//   and "pofo" take seconds where the chain of the graph is longer than 32 operations, and are left
//   out then. The same seed gives the same schedule, unless the time limit ends a search or a plan
//   before its work ends.
// - "greedy", "vdnn-ratio", "tflms", "dynprog", "autoswap", "recompute", "pofo": the policies of
//   chains (chain_policy.h) on the chain of the graph (ToChain). Copies run one at a time, at the
//   lower rate of the link, and weights stay on the device.
TIDEPOOL_EXPORT std::vector<OffloadPolicyInfo> OffloadPolicies();
TIDEPOOL_EXPORT std::vector<std::string> OffloadPolicyNames();

// Returns a valid schedule of a valid `graph`, or of a valid family at the batch of the request.
// - NotFound for an unknown policy: the known names, the nearest first.
// - ResourceExhausted when a single task needs more than the memory, with the task and the bytes,
//   when no sub-batch fits, and when a simulated iteration or a plan of addresses does not fit.
// - FailedPrecondition for several rounds of a batch normalisation that options refuse.
// - InvalidArgument for a machine, an alignment, a batch, a sub-batch or devices out of range; for
//   rounds and several devices where the policy has none, with its name; for options of another
//   policy; and unless there is one density per datum.
// - Where modes or compression are tried, Simulate's errors; GraphAt's errors for batches.
// - Cancelled when a stop comes before the first schedule.
// Thread-safe. O(steps + uses), a simulation for each mode that is tried and for compression, a
// schedule for each sub-batch that is tried, and FixAddresses.
TIDEPOOL_EXPORT absl::StatusOr<MadeSchedule> MakeSchedule(std::string_view policy,
                                                          const TaskGraph& graph,
                                                          const ScheduleRequest& request);
TIDEPOOL_EXPORT absl::StatusOr<MadeSchedule> MakeSchedule(std::string_view policy,
                                                          const GraphFamily& family,
                                                          const ScheduleRequest& request);

// Returns the chain of a valid graph that a policy of chains sees (ToChain). Sizes are whole
// granules. Tasks have the fastest algorithms, unless options choose those of least workspaces. For
// "recompute" and "pofo" it has the lists for recomputation. Where gradients of micro-batches add
// up, it is that of the last one, and data that others need counts as resident. NotFound for an
// unknown policy, InvalidArgument for one that sees no chain; other errors are ToChain's.
// Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<GraphChain> ChainOfGraph(std::string_view policy,
                                                        const TaskGraph& graph,
                                                        const ScheduleRequest& request);

// Simulates one iteration of a schedule of MakeSchedule. A timeline of a pool has its plan. Errors
// are those of Simulate for the memory of the schedule. Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<Timeline> Simulate(const MadeSchedule& made);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_OFFLOAD_POLICY_H_
