// SPDX-License-Identifier: Apache-2.0
// The question to an offload policy, its options, and its answer (offload_policy.h).
#ifndef TIDEPOOL_TRAINING_SCHEDULE_REQUEST_H_
#define TIDEPOOL_TRAINING_SCHEDULE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/sub_batch.h"
#include "tidepool/training/timeline.h"

namespace tidepool {

// The layers that offload their input.
enum class OffloadSet : std::uint8_t {
  // Every layer with an input that the backward pass reads again. Data between the linear and
  // softmax layers that end a network of convolutions stays: the papers keep it, because it is
  // small.
  kAll,
  kConvolutions,
  kAlternateConvolutions,  // every other convolution, beginning with the first
  // The fastest, by the simulator, of the sets above, of shares of kAll and kConvolutions, and of
  // no offload at all. A share offloads as much as the memory makes necessary. The fastest
  // algorithms are tried first; if these do not fit, those with workspaces up to a limit, which is
  // lowered as little as possible.
  kDynamic,
};
enum class AlgorithmChoice : std::uint8_t {
  kLeastMemory,  // each task's smallest workspace: (m) in the papers
  kFastest,      // (p) in the papers
};
// The order of allocations in a layer's backward pass: memory for data that is fetched meanwhile
// comes before the gradients of the layer, or after.
enum class AllocationOrder : std::uint8_t { kPrefetchFirst, kDerivativeFirst };

// Returns the value with the name "all", "conv", "aconv", "dynamic"; "m", "p"; "prefetch-first" or
// "derivative-first". InvalidArgument, with the known names, for another name.
TIDEPOOL_EXPORT absl::StatusOr<OffloadSet> OffloadSetFromName(std::string_view name);
TIDEPOOL_EXPORT absl::StatusOr<AlgorithmChoice> AlgorithmChoiceFromName(std::string_view name);
TIDEPOOL_EXPORT absl::StatusOr<AllocationOrder> AllocationOrderFromName(std::string_view name);
TIDEPOOL_EXPORT std::string_view AllocationOrderName(AllocationOrder order);

// The options of "none", "vdnn", "vdnn++" and "base".
struct LayerwiseOptions {
  OffloadSet set = OffloadSet::kConvolutions;
  AlgorithmChoice algorithms = AlgorithmChoice::kFastest;
  AllocationOrder order = AllocationOrder::kPrefetchFirst;
  // The share of nonzero words of each datum of the graph; empty: no compression. An offload is
  // compressed where that saves host memory (CompressionAdvisor) and the simulator, with the
  // pool's profile and the machine's link, predicts at most 1 % more time. If the iteration does
  // not fit otherwise, every offload is compressed that saves memory.
  std::vector<double> densities = {};

  friend bool operator==(const LayerwiseOptions&, const LayerwiseOptions&) = default;
};

// The options of policies of chains.
struct GraphChainOptions {
  ChainPolicyOptions chain = {};
  // Empty: both are tried, and the faster one by the chain's times is taken.
  std::optional<AlgorithmChoice> algorithms = std::nullopt;
};

// The options of "best".
struct BestOptions {
  // The limit for the whole answer, more than 0: all searches, and the plans of addresses.
  // Schedules of other policies take milliseconds more. A longer limit finds all that a shorter one
  // does, from a seventh of a second on. A refusal may take as long again: it names a memory that
  // would do, if one is found.
  double time_limit_seconds = 2;
  // The work of all searches and plans, in seconds of a usual core; 0: the time limit. A
  // longer time limit lets the work end first, so that the schedule depends on no clock.
  double work_seconds = 0;
  std::uint64_t seed = 1;
  bool recomputes = true;  // whether tasks may run again
  // Whether data may be sent to the host to make room. False for a device that shares the memory
  // of the host. Data that ends on the host is sent all the same, and data that the host has may be
  // dropped and fetched again.
  bool offloads = true;
  // 0: data is copied whole. Otherwise also in parts of this size, rounded up to granules, and
  // at most 64 a datum. The memory of each part is free as soon as it has been sent.
  std::int64_t part_bytes = 0;
  // The share of nonzero words of each datum of the graph; empty: no compression. The device's
  // compressor (machine.h) takes the copies that it makes faster, and an answer is never slower
  // than without. Data that the host may read is copied raw.
  std::vector<double> densities = {};
  // Schedules of earlier calls, such as those for less memory. The answer is no slower than any of
  // them that is for this graph and alignment and fits the memory. So a sweep that passes the
  // schedules of each memory to the next never gets slower with more memory. Ignored: schedules of
  // pools; those that run tasks again, if `recomputes` is false; those that send data, if
  // `offloads` is false; and those without addresses, if addresses are asked for.
  std::vector<Schedule> known = {};
  // Searches poll this token often. A stop ends them with the best schedule so far.
  std::stop_token stop = {};
  // Not an option: MakeSchedule replaces it. Where the time limit ends a part of the search before
  // its work is done, the search sets the bool, and MadeSchedule::ended_by tells so.
  bool* was_late = nullptr;
  // Not an option either: set where the search has proved its answer (MadeSchedule::proved).
  bool* was_proved = nullptr;

  friend bool operator==(const BestOptions&, const BestOptions&) = default;
};

// The options of "modnn".
struct ModnnOptions {
  // How kLargestSubBatch chooses the samples of a round.
  SubBatchOptions sub_batch = {};
  // Whether a batch that is normalised over its samples may have several rounds. The statistics are
  // then those of each sub-batch (ghost batch normalisation), so the gradients are others.
  bool ghost_batch_normalization = true;
  // The choices of the paper where the policy has better ones: one queue for copies of both
  // directions, equations (9) and (10) as printed, which do not know the copies that wait already,
  // copies in that begin no earlier than the task before the next one ends, and defragmentation as
  // soon as the paper's criteria leave no scheme.
  bool as_printed = false;

  friend bool operator==(const ModnnOptions&, const ModnnOptions&) = default;
};

// The options of one policy. Empty: the policy's defaults.
using PolicyOptions =
    std::variant<std::monostate, LayerwiseOptions, GraphChainOptions, BestOptions, ModnnOptions>;

// Sub-batches of a ScheduleRequest besides numbers of samples.
inline constexpr std::int64_t kWholeBatch = -1;
// The largest that fits the memory; of "modnn", that of ChooseSubBatch (sub_batch.h).
inline constexpr std::int64_t kLargestSubBatch = -2;

// How several devices add up the gradients of weights, and which one updates the weights.
enum class GradientReduction : std::uint8_t {
  // kHost for a machine without connections between devices. Otherwise the fastest of the others in
  // a simulation; of equals the first.
  kAutomatic,
  // Cores of the host add up the gradients and update the weights (moDNN, section 6).
  kHost,
  // After all tasks of the rounds, the first device adds up the gradients and updates the weights,
  // which go on from device to device: the baseline of moDNN's section 6. Only the first device has
  // the optimizer's state.
  kFirstDevice,
  // Each device adds up a part of each gradient, around a ring, and all devices update all weights:
  // Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
  // Journal of Parallel and Distributed Computing 69(2), 2009.
  kRing,
};
// Returns the name in options: "auto", "cpu", "gpu0", "ring".
TIDEPOOL_EXPORT std::string_view GradientReductionName(GradientReduction reduction);

// The question to a policy, beside the graph or the family.
struct ScheduleRequest {
  Machine machine = {};
  // Samples of an iteration of a family; 0 for a graph, which has its own.
  std::int64_t batch = 0;
  // Samples of a round on one device: 1 to the batch of one device, or a constant above. An
  // iteration of fewer samples than the batch has several rounds, and the last one takes the rest.
  // Gradients of weights add up, and updates follow the last round.
  std::int64_t sub_batch = kWholeBatch;
  // Devices that divide the batch into equal parts. They are the first of the machine.
  std::size_t devices = 1;
  // Cores of the host run the updates of one device too. Its gradients leave as they are ready, and
  // state of the optimizer at home on the host takes no memory of the device (Ren et al.,
  // "ZeRO-Offload", USENIX ATC 2021). InvalidArgument for a machine without cores of the host, and
  // for one graph in the place of a family.
  bool host_updates = false;
  GradientReduction reduction = GradientReduction::kAutomatic;  // of several devices
  // The memory of the schedule. Empty: a pool where the policy makes schedules of pools and there
  // is one device and one round, and fixed addresses otherwise.
  std::optional<ScheduleMemory> memory = std::nullopt;
  // How the data of the schedule is placed. The alignment, a power of two, counts for each kind of
  // memory: it is that of addresses, or the bytes of a granule. The rest counts for a pool alone.
  PlacingOptions placing = {};
  PolicyOptions options = {};
};

// The end of a search for a schedule.
enum class EndedBy : std::uint8_t {
  kProof,      // MadeSchedule::proved
  kWork,       // the search has done its work, or the policy does not search
  kClock,      // the time limit ended a part of the search: a faster machine may find another one
  kInterrupt,  // a stop
};
// Returns the name in answers: "proof", "work", "clock", "interrupt".
TIDEPOOL_EXPORT std::string_view EndedByName(EndedBy ended_by);
// Returns the end of the search that gave MakeSchedule's ResourceExhausted: kClock where the time
// limit ended it, so that a longer one may find a schedule, and kWork elsewhere. Thread-safe.
TIDEPOOL_EXPORT EndedBy EndedByOf(const absl::Status& refusal);

// The answer of a policy.
struct MadeSchedule {
  Schedule schedule = {};  // with fixed addresses, its plan is the offsets of its steps
  // The graph at each batch that the schedule's rounds name. The first is that of the fingerprint.
  std::vector<TaskGraph> graphs = {};
  Machine machine;             // the devices that the schedule uses
  PlacingOptions placing;      // those of the request
  std::int64_t batch = 0;      // of all devices
  std::int64_t sub_batch = 0;  // samples of a round on one device: the most of any round
  std::int64_t rounds = 1;     // of each device
  // The tasks of one device by their fastest algorithms, its whole batch at once.
  double ideal_seconds = 0;
  // No schedule with the same order of tasks on this machine is faster (lower_bound.h).
  double lower_bound_seconds = 0;
  // Either the schedule takes lower_bound_seconds; or "best" has tried all schedules of a small
  // graph that its options allow, with this order of tasks and with data that is copied as a whole,
  // and none is faster. False for a pool, which Simulate times.
  bool proved = false;
  EndedBy ended_by = EndedBy::kWork;
  GradientReduction reduction = GradientReduction::kHost;  // of several devices: the one in use
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_SCHEDULE_REQUEST_H_
