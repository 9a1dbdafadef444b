// SPDX-License-Identifier: Apache-2.0
// Chain policies: from a chain to the times of its operations and transfers, and a checker that
// shares no code with them. Pure functions: they touch no memory and no device. A clock only serves
// a policy's time limit.
#ifndef TIDEPOOL_TRAINING_CHAIN_POLICY_H_
#define TIDEPOOL_TRAINING_CHAIN_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/machine.h"

namespace tidepool {

// An action of a schedule of a chain. F_i takes the memory of x_(i+1), unless that is on the
// device, and of exF_i when it starts, and gives exF_i back when it ends. B_i takes y_i and exB_i,
// and B_L y_(L+1) too, and gives exB_i, x_(i+1) and y_(i+1) back.
enum class ChainAction : std::uint8_t {
  kForward,   // F_index runs. More than once where the policy recomputes.
  kBackward,  // B_index runs.
  // x_index is copied to the host. Its memory is given back at the end of this copy or of the first
  // run of F_index, whichever is later, unless it is fetched before.
  kOffload,
  kPrefetch,  // x_index is copied back. It takes its memory when this copy starts.
  // x_index leaves the device at once, without a copy: it is recomputed later, or the host has a
  // copy.
  kDrop,
  // F_index runs, and of x_(index+1) keeps only the output: it takes the memory of that and of
  // Chain::output_extra.
  kForwardOutput,
};

struct ChainStep {
  ChainAction action = ChainAction::kForward;
  std::size_t index = 0;
  double start_seconds = 0;  // from the start of the iteration
  // The bytes [begin, end) of x_index that a copy moves, when copies are made in parts; end -1: all
  // that is there. ChainAction then holds for each part by itself.
  std::int64_t begin = 0;
  std::int64_t end = -1;

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

// How copies run, besides the chain's rate. The default is the paper's.
struct ChainCopies {
  bool full_duplex = false;    // an offload and a prefetch run at the same time
  double latency_seconds = 0;  // before each copy, from 0 to kMostTaskSeconds
  // The device's compressor (machine.h), and the share of nonzero words of all activations, from 0
  // to 1. Schedules with one compress all copies.
  CopyCompressor compressor = {};
  double density = 1;
  // 0: activations are copied whole. Otherwise also in parts of this size, and at most 64 an
  // activation, fewer in chains of more than 250 operations. The memory of each part is free as
  // soon as it has been sent.
  std::int64_t part_bytes = 0;

  friend bool operator==(const ChainCopies&, const ChainCopies&) = default;
};

struct ChainSchedule {
  std::string policy = {};
  std::vector<ChainStep> steps = {};  // by start; equal starts in the order in which they happen
  // Those of the options, but without a compressor that makes no copy faster.
  ChainCopies copies = {};
  double seconds = 0;              // the makespan
  double lower_bound_seconds = 0;  // no schedule of the policy's class is faster
  bool proved = false;             // no schedule of the policy's class is faster than this one
  bool stopped = false;            // a stop ended the search before a proof
  bool timed_out = false;          // the time limit ended a search before its work was done

  friend bool operator==(const ChainSchedule&, const ChainSchedule&) = default;
};

struct ChainPolicyOptions {
  std::int64_t slots = 0;         // dynprog: parts of the memory, up to 10^6; 0: exact
  double time_limit_seconds = 2;  // more than 0
  std::uint64_t seed = 1;
  ChainCopies copies = {};  // best; other policies take the default alone
  bool recomputes = false;  // best: whether operations may run again
  // Searches poll this token often. A stop ends them with the best schedule so far.
  std::stop_token stop = {};
  // Not an option: MakeChainSchedule and MakeSchedule replace it. A search that the time limit ends
  // before its work is done sets the bool.
  bool* was_late = nullptr;
};

// All functions below are thread-safe. They need a valid chain (ValidateChain).

// Returns the known policies.
//
// Policies that only transfer activations. No such schedule is faster than ChainOperationBound, so
// this is their lower bound, and a schedule that reaches it is proved:
// - "greedy": Beaumont et al., section 4. Offloads x_0, ..., x_k with the smallest k that makes
//   M_peak fit. O(L log L).
// - "dynprog": their section 5. The best set when transfers may be interrupted, found by Algorithm
//   1 with its equations corrected, and scheduled without interruption. With slots, section 5.3.2's
//   discretization. Exact up to about 30 operations or 500 slots; a beam search beyond its limits,
//   about a second and 200 MiB a search.
// - "vdnn-ratio": their section 6.1. The best set of activations with a ratio u_F / |x| above a
//   threshold, or of every other one of them, over all thresholds. O(L^2 log L).
// - "autoswap": Zhang et al., arXiv 1903.06631. Activations leave in the order of a weighted sum of
//   four scores. A search with `seed` tries 200 weights. O(L^2).
// - "tflms": Le et al., arXiv 1807.02037. The first n activations are offloaded, and fetched k
//   operations ahead; the best n and k. It delays no operation until memory is free, so it may be
//   ResourceExhausted where the chain runs. O(L^3).
// The last three try fewer schedules when chains have thousands of operations.
// - "best": the fastest of all these and of two searches: one over sets, one over all orders of
//   operations and transfers with beams of growing width. The latter is exact when no beam leaves a
//   schedule out, and then proves its schedule; up to 12 activations that takes some milliseconds.
//   It takes any ChainCopies. With latency it leaves the other policies out, because they cannot
//   model it. They see a compressor as a faster link, at the lower rate of its two directions.
//   Copies in parts are tried after whole copies, in a quarter of the time limit more; a schedule
//   has all copies in parts or none. So parts never make it slower. With `recomputes`, it
//   also takes schedules of the policies below where they are faster. Half of the time limit is
//   for those, and the bound is that of "pofo". Work is limited, and the time limit ends it on
//   slow machines.
//
// Policies that recompute. They take up to 512 operations, and their searches end with the time
// limit. A shorter limit means fewer slots of memory, so that a result rarely depends on the clock:
// - "recompute": runs forward operations again and transfers nothing. Dynamic programming over
//   segments that keep data until its backward operation (Beaumont, Eyraud-Dubois, Herrmann, Joly
//   and Shilova, "Optimal checkpointing for heterogeneous chains", RR-9302, 2019), in slots of
//   memory. Without `slots` their number follows from L, and up to 28 operations are searched for
//   the fastest schedule of all, which is proved when the search ends within its 300,000 states.
//   O(L^3 slots + states L).
// - "pofo": offloads and recomputes. Beaumont, Eyraud-Dubois and Shilova, "Efficient Combination of
//   Rematerialization and Offloading for Training DNNs", NeurIPS 2021: blocks of operations with
//   inputs that stay or leave, with a few states a position instead of all: first 4, then 16,
//   then 64. The backward half of a block is followed operation by operation, in the search and in
//   the schedule. Never slower than "greedy", and than "recompute" in half of the time limit. Its
//   lower bound holds for all schedules that offload or recompute.
TIDEPOOL_EXPORT std::vector<std::string> ChainPolicyNames();

// Returns a schedule that CheckChainSchedule accepts. NotFound for an unknown policy, with the
// known names, the nearest first. ResourceExhausted when the chain cannot run in its memory, with
// an operation and the bytes that it needs. InvalidArgument for an invalid chain, slots and latency
// out of range, copies that the policy does not know, and a time limit that is not more than 0.
// Cancelled when a stop comes before the first schedule. A result depends on the arguments alone,
// except for policies with a time limit and for stops.
TIDEPOOL_EXPORT absl::StatusOr<ChainSchedule> MakeChainSchedule(std::string_view policy,
                                                                const Chain& chain,
                                                                const ChainPolicyOptions& options);

// Returns the least bytes of memory in which MakeChainSchedule has a schedule of the policy. The
// chain's own memory does not matter. Where no formula tells it ("tflms", and policies that
// recompute), the policy is tried, by halving the range of memories: O(log bytes) schedules. After
// the time limit it returns the smallest memory so far that is enough. Errors are those of
// MakeChainSchedule. Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> LeastPolicyMemory(std::string_view policy,
                                                               const Chain& chain,
                                                               const ChainPolicyOptions& options);

// Returns OK for a schedule that the chain's machine can carry out: operations run one at a time,
// transfers too, or one in each direction with ChainCopies::full_duplex, each finds its data on the
// device for as long as it runs, all B_i run once, memory never exceeds M_GPU, and the makespan is
// the end of the last step. Times may differ by 10^-9 of the makespan. InvalidArgument otherwise,
// with the first step at fault. O(n log n) for n steps.
TIDEPOOL_EXPORT absl::Status CheckChainSchedule(const Chain& chain, const ChainSchedule& schedule);

// Return indices in ascending order: of activations that are offloaded, and of operations F_i that
// run more than once. O(n log n).
TIDEPOOL_EXPORT std::vector<std::size_t> OffloadedIndices(const ChainSchedule& schedule);
TIDEPOOL_EXPORT std::vector<std::size_t> RecomputedIndices(const ChainSchedule& schedule);
// Returns the start of the first step with this action for each index below `count`, in seconds;
// -1 for an index without such a step. O(n).
TIDEPOOL_EXPORT std::vector<double> FirstStarts(const ChainSchedule& schedule, ChainAction action,
                                                std::size_t count);

// Returns a schedule of the graph of a chain, `made` (ToChain), with the steps of the chain's
// schedule. Its memory is paged; the device has `made.chain.memory_bytes + made.resident_bytes`.
// Tasks run again as their parts do, so `made` must be made with ChainOptions::recomputation if any
// does. Data leaves after its last use before it is made again, task by task, and steps have the
// order of their times. So a simulation has the makespan of `schedule`, or a smaller one. An
// activation that would come back before it has left is not moved. Where sizes rounded up to
// granules need more than the memory, LowerSchedule refuses the result. Errors are
// CheckChainSchedule's; InvalidArgument for tasks that may not run again, for weights at home on
// the host, for copies of parts, and for granules of other than 1 to 2^30 bytes.
// O(steps log steps + uses).
TIDEPOOL_EXPORT absl::StatusOr<Schedule> ScheduleChain(const TaskGraph& graph,
                                                       const GraphChain& made,
                                                       const ChainSchedule& schedule,
                                                       std::int64_t granule = 1);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_CHAIN_POLICY_H_
