// Offload policies: from a task graph and a machine to a schedule.
//
// Pure functions: they touch no memory, no device and no clock but the simulator's.
#ifndef TIDEPOOL_SCHEDULE_OFFLOAD_POLICY_H_
#define TIDEPOOL_SCHEDULE_OFFLOAD_POLICY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool {

// The layers whose input is sent out.
enum class OffloadSet : std::uint8_t {
  // All whose input the backward pass needs again, but for linear layers, and softmax, behind
  // linear ones: what ends networks, and is small.
  kAll,
  kConvolutions,
  kAlternateConvolutions,  // every other one, from the first on
  // The quickest of the sets above, and of nothing sent out, as the simulator predicts; with the
  // fastest algorithms, or, where these do not fit, the fastest with workspaces up to a limit.
  kDynamic,
};
enum class AlgorithmChoice : std::uint8_t {
  kLeastMemory,  // of each task the one with the smallest workspace: the papers' (m)
  kFastest,      // (p)
};
// Of a layer in the backward pass: what is fetched meanwhile gets its memory before the gradients
// of the layer, or after.
enum class AllocationOrder : std::uint8_t { kPrefetchFirst, kDerivativeFirst };

// "all", "conv", "aconv", "dynamic"; "m", "p"; "prefetch-first", "derivative-first".
// InvalidArgument with the known names.
TIDEPOOL_EXPORT absl::StatusOr<OffloadSet> OffloadSetFromName(std::string_view name);
TIDEPOOL_EXPORT absl::StatusOr<AlgorithmChoice> AlgorithmChoiceFromName(std::string_view name);
TIDEPOOL_EXPORT absl::StatusOr<AllocationOrder> AllocationOrderFromName(std::string_view name);

struct OffloadPolicyOptions {
  TimelineOptions machine = {};
  OffloadSet set = OffloadSet::kConvolutions;
  AlgorithmChoice algorithms = AlgorithmChoice::kFastest;
  AllocationOrder order = AllocationOrder::kPrefetchFirst;
  // Of the graph's data, the share of words that are not zero; empty: nothing is compressed. What
  // is sent out is compressed where that saves memory of the host (CompressionAdvisor) and, as the
  // simulator predicts with the machine's profile and link, takes at most 1 % more time; or
  // wherever it saves memory, when the iteration does not fit without.
  std::vector<double> densities = {};
};

// "none": everything stays on the device. "vdnn": Rhu et al., "vDNN: Virtualized Deep Neural
// Networks for Scalable, Memory-Efficient Neural Network Design", MICRO 2016: each layer waits for
// the copies that it overlaps with. "vdnn++": Shriram et al., "Dynamic memory management for
// GPU-based training of deep neural networks", IPDPS 2019, section IV: none does.
TIDEPOOL_EXPORT std::vector<std::string> OffloadPolicyNames();

// A valid schedule of `graph`, which is valid. NotFound, with the known names, for a policy that
// there is not; ResourceExhausted when a task alone needs more than the memory, with the task and
// the bytes, or when what is simulated does not fit; InvalidArgument for an alignment that is none
// and for densities that are not the graph's; where modes or compression are tried, Simulate's too.
// Thread-safe. O(steps + uses), and that of a simulation for each mode that is tried and for
// compression.
TIDEPOOL_EXPORT absl::StatusOr<Schedule> MakeSchedule(std::string_view policy,
                                                      const TaskGraph& graph,
                                                      const OffloadPolicyOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_OFFLOAD_POLICY_H_
