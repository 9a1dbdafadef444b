// SPDX-License-Identifier: Apache-2.0
// Offload policies: from a task graph and a machine to a schedule. Pure functions: they touch no
// memory and no device, and no clock except the simulator's.
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

// The layers that offload their input.
enum class OffloadSet : std::uint8_t {
  // Every layer with an input that the backward pass reads again. Data between the linear and
  // softmax layers that end a network of convolutions stays: the papers keep it, because it is
  // small.
  kAll,
  kConvolutions,
  kAlternateConvolutions,  // every other convolution, beginning with the first
  // The fastest, by the simulator, of the sets above, of shares of kAll and kConvolutions, and of
  // no
  // offload at all. A share offloads as much as the memory asks for. The fastest algorithms are
  // tried first. Where these do not fit, those with workspaces up to a limit are tried.
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

struct OffloadPolicyOptions {
  TimelineOptions machine = {};
  OffloadSet set = OffloadSet::kConvolutions;
  AlgorithmChoice algorithms = AlgorithmChoice::kFastest;
  AllocationOrder order = AllocationOrder::kPrefetchFirst;
  // The share of nonzero words of each datum of the graph; empty: no compression. An offload is
  // compressed where that saves host memory (CompressionAdvisor) and the simulator, with the
  // machine's profile and link, predicts at most 1 % more time. If the iteration does not fit
  // otherwise, every offload is compressed that saves memory.
  std::vector<double> densities = {};
};

// Returns the known policies. "none": all data stays on the device. "vdnn": Rhu et al., "vDNN:
// Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design", MICRO
// 2016: each layer waits for the copies that it overlaps with. "vdnn++": Shriram et al., "Dynamic
// memory management for GPU-based training of deep neural networks", IPDPS 2019, section IV: no
// layer waits.
TIDEPOOL_EXPORT std::vector<std::string> OffloadPolicyNames();

// Returns a valid schedule of a valid `graph`. NotFound, with the known names, for an unknown
// policy. ResourceExhausted when a single task needs more than the memory, with the task and the
// bytes, or when a simulated iteration does not fit. InvalidArgument for an invalid alignment, and
// unless there is one density per datum. Where modes or compression are tried, Simulate's errors
// too. Thread-safe. O(steps + uses), and a simulation for each mode that is tried and for
// compression.
TIDEPOOL_EXPORT absl::StatusOr<Schedule> MakeSchedule(std::string_view policy,
                                                      const TaskGraph& graph,
                                                      const OffloadPolicyOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_OFFLOAD_POLICY_H_
