// SPDX-License-Identifier: Apache-2.0
// Makes a schedule by the name of a policy.
#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/text/sizes.h"
#include "policies/offload/compression_choice.h"
#include "policies/offload/layers.h"
#include "policies/offload/layerwise.h"
#include "policies/offload/mode_search.h"
#include "tidepool/schedule/offload_policy.h"

namespace tidepool {
namespace {

using offload_policies::LayerwiseMode;

struct NamedLayerwise {
  const char* name;
  bool offloads;
  bool synchronizes;
};
constexpr auto kLayerwisePolicies = std::to_array<NamedLayerwise>({
    {"none", false, false},
    {"vdnn", true, true},
    {"vdnn++", true, false},
});

// The names of enumerations, by value.
constexpr std::array<std::string_view, 4> kOffloadSets = {"all", "conv", "aconv", "dynamic"};
constexpr std::array<std::string_view, 2> kAlgorithmChoices = {"m", "p"};
constexpr std::array<std::string_view, 2> kAllocationOrders = {"prefetch-first",
                                                               "derivative-first"};

std::string InQuotes(std::string_view name) {
  return absl::StrCat("'", absl::CHexEscape({name.data(), name.size()}), "'");
}

template <typename Enumeration, std::size_t kCount>
absl::StatusOr<Enumeration> FromName(std::string_view what, std::string_view name,
                                     const std::array<std::string_view, kCount>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Enumeration>(found - names.begin());
  return absl::InvalidArgumentError(absl::StrCat(
      "no ", std::string(what), " ", InQuotes(name), ", expected one of ",
      absl::StrJoin(names, ", ",
                    [](std::string* text, std::string_view one) { text->append(one); })));
}

std::int64_t AlignedUp(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Weights stay on the device under all of these policies, and so do their gradients and the state
// of the optimizer, where these exist before and after an iteration.
bool Stays(const GraphData& data) { return ExistsBefore(data) && ExistsAfter(data); }

absl::Status CheckTasksFit(const TaskGraph& graph, const TimelineOptions& machine) {
  std::int64_t weights = 0;
  for (const GraphData& data : graph.data) {
    if (Stays(data)) weights += AlignedUp(data.bytes, machine.alignment);
  }
  for (const GraphTask& task : graph.tasks) {
    std::int64_t bytes =
        weights + AlignedUp(task.algorithms.front().workspace_bytes, machine.alignment);
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        if (Stays(graph.data[data])) continue;
        bytes += AlignedUp(graph.data[data].bytes, machine.alignment);
      }
    }
    if (bytes <= machine.memory_bytes) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("task ", InQuotes(task.name), " alone needs ", text::ExactSize(bytes),
                     ", with the weights of the graph, ", text::Size(weights), "; the memory has ",
                     text::ExactSize(machine.memory_bytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckDensities(const TaskGraph& graph, const std::vector<double>& densities) {
  if (densities.empty()) return absl::OkStatus();
  if (densities.size() != graph.data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(densities.size(), " densities, expected ",
                                                   graph.data.size(), ", one for each data"));
  }
  for (std::size_t i = 0; i < densities.size(); ++i) {
    if (densities[i] >= 0 && densities[i] <= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "density ", densities[i], " of ", InQuotes(graph.data[i].name), ", expected 0 to 1"));
  }
  return absl::OkStatus();
}

// Larger alignments, times the data of a graph, would overflow.
constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;

absl::Status CheckMachine(std::int64_t alignment) {
  if (alignment > 0 && alignment <= kLargestAlignment && (alignment & (alignment - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
}

absl::StatusOr<LayerwiseMode> ModeOf(const NamedLayerwise& policy, const TaskGraph& graph,
                                     const offload_policies::Layers& layers,
                                     const OffloadPolicyOptions& options) {
  LayerwiseMode mode = {.offloads = policy.offloads,
                        .set = options.set,
                        .order = options.order,
                        .synchronizes = policy.synchronizes};
  if (options.set == OffloadSet::kDynamic) {
    return FindMode(graph, layers, mode, options.machine);
  }
  mode.most_workspace = options.algorithms == AlgorithmChoice::kLeastMemory
                            ? offload_policies::kLeastWorkspace
                            : offload_policies::kAnyWorkspace;
  return mode;
}

// Returns the text of a mode in the papers' notation: "vdnn++ conv(p)".
std::string DescriptionOf(const NamedLayerwise& policy, const LayerwiseMode& mode) {
  std::string text = policy.name;
  if (policy.offloads) {
    const std::string_view set =
        mode.offloads ? kOffloadSets[static_cast<std::size_t>(mode.set)] : "none";
    if (mode.parts < offload_policies::kAllParts) {
      absl::StrAppend(&text, " ", mode.parts, "/", offload_policies::kAllParts, " of");
    }
    absl::StrAppend(&text, " ", std::string(set));
  }
  if (mode.most_workspace == offload_policies::kLeastWorkspace) return text + "(m)";
  if (mode.most_workspace == offload_policies::kAnyWorkspace) return text + "(p)";
  return absl::StrCat(text, "(workspaces up to ", mode.most_workspace, " bytes)");
}

}  // namespace

absl::StatusOr<OffloadSet> OffloadSetFromName(std::string_view name) {
  return FromName<OffloadSet>("set of layers", name, kOffloadSets);
}

absl::StatusOr<AlgorithmChoice> AlgorithmChoiceFromName(std::string_view name) {
  return FromName<AlgorithmChoice>("choice of algorithms", name, kAlgorithmChoices);
}

absl::StatusOr<AllocationOrder> AllocationOrderFromName(std::string_view name) {
  return FromName<AllocationOrder>("order of allocations", name, kAllocationOrders);
}

std::vector<std::string> OffloadPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kLayerwisePolicies.size());
  for (const NamedLayerwise& policy : kLayerwisePolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<Schedule> MakeSchedule(std::string_view policy, const TaskGraph& graph,
                                      const OffloadPolicyOptions& options) {
  const auto* found = std::find_if(kLayerwisePolicies.begin(), kLayerwisePolicies.end(),
                                   [&](const NamedLayerwise& one) { return one.name == policy; });
  if (found == kLayerwisePolicies.end()) {
    return absl::NotFoundError(absl::StrCat("no offload policy ", InQuotes(policy),
                                            ", expected one of ",
                                            absl::StrJoin(OffloadPolicyNames(), ", ")));
  }
  if (absl::Status status = CheckMachine(options.machine.alignment); !status.ok()) return status;
  if (absl::Status status = CheckDensities(graph, options.densities); !status.ok()) return status;
  if (absl::Status status = CheckTasksFit(graph, options.machine); !status.ok()) return status;
  const offload_policies::Layers layers = offload_policies::LayersOf(graph);
  const absl::StatusOr<LayerwiseMode> mode = ModeOf(*found, graph, layers, options);
  if (!mode.ok()) return mode.status();
  Schedule schedule = MakeLayerwise(graph, layers, *mode);
  schedule.policy = DescriptionOf(*found, *mode);
  if (options.densities.empty() || !mode->offloads) return schedule;
  if (absl::Status status =
          offload_policies::ChooseCompression(graph, options.densities, options.machine, schedule);
      !status.ok()) {
    return status;
  }
  return schedule;
}

}  // namespace tidepool
