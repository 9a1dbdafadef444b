// SPDX-License-Identifier: Apache-2.0
// Makes the schedule by a policy, or reads it from a file.
#include "trace_replay/offload/make_schedule.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/training/offload_policy.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/pools_tried.h"
#include "trace_replay/offload/schedule_source.h"

namespace tidepool::tool {
namespace {

// Returns the options of the type that the policy takes, or none for an unknown policy.
PolicyOptions OptionsFor(const std::string& name, const PolicyChoice& choice) {
  const std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
  if (!policy.has_value()) return {};
  if (std::holds_alternative<LayerwiseOptions>(policy->options)) return choice.layerwise;
  if (std::holds_alternative<ModnnOptions>(policy->options)) return choice.modnn;
  if (std::holds_alternative<BestOptions>(policy->options)) {
    return BestOptions{.time_limit_seconds = choice.chain.time_limit_seconds,
                       .seed = choice.chain.seed,
                       .recomputes = choice.recompute != "off",
                       .offloads = choice.offloads,
                       .part_bytes = choice.part_bytes,
                       .densities = choice.layerwise.densities,
                       .known = choice.known,
                       .stop = choice.chain.stop};
  }
  GraphChainOptions chain = {.chain = choice.chain};
  if (choice.has_algorithms) chain.algorithms = choice.layerwise.algorithms;
  return chain;
}

}  // namespace

ScheduleRequest RequestOf(const std::string& policy, const PolicyChoice& choice) {
  return {.machine = choice.machine,
          .memory = choice.memory_kind,
          .placing = choice.placing,
          .options = OptionsFor(policy, choice)};
}

absl::StatusOr<ScheduledGraph> Answered(absl::StatusOr<MadeSchedule> made, TaskGraph graph,
                                        PolicyChoice choice) {
  if (made.ok()) return ScheduledGraph{.choice = std::move(choice), .made = *std::move(made)};
  if (!absl::IsResourceExhausted(made.status())) return made.status();
  MadeSchedule refused = {.machine = choice.machine,
                          .placing = choice.placing,
                          .batch = graph.batch,
                          .ideal_seconds = TotalsOf(graph).least_seconds,
                          .ended_by = EndedByOf(made.status())};
  refused.graphs.push_back(std::move(graph));
  return ScheduledGraph{
      .choice = std::move(choice), .made = std::move(refused), .fits = made.status()};
}

namespace {

absl::StatusOr<ScheduledGraph> ScheduleGraph(const OffloadCommandOptions& options,
                                             TaskGraph graph) {
  absl::StatusOr<PolicyChoice> choice = ChoiceOf(options, graph);
  if (!choice.ok()) return choice.status();
  if (TriesPools(options)) return TryPools(options, std::move(graph), *std::move(choice));
  absl::StatusOr<MadeSchedule> made =
      MakeSchedule(options.policy, graph, RequestOf(options.policy, *choice));
  return Answered(std::move(made), std::move(graph), *std::move(choice));
}

absl::Status AboutGraph(const OffloadCommandOptions& options, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(options.graph), ": ", what));
}

}  // namespace

absl::StatusOr<ScheduledGraph> MakeScheduledGraph(const OffloadCommandOptions& options,
                                                  GraphOrFamily graphs, std::int64_t batch) {
  if (!options.schedule.empty()) return ReadScheduledGraph(options, std::move(graphs), batch);
  if (auto* graph = std::get_if<TaskGraph>(&graphs)) {
    if (!DividesBatch(options)) return ScheduleGraph(options, std::move(*graph));
    return AboutGraph(options, absl::StrCat(GraphOfBatchText(*graph),
                                            ", expected a graph at any batch for --sub-batch and "
                                            "--devices"));
  }
  const GraphFamily& family = std::get<GraphFamily>(graphs);
  if (batch == 0) return AboutGraph(options, "a graph at any batch, expected --batch too");
  if (DividesBatch(options)) return MakeDividedGraph(options, family, batch);
  absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
  if (!graph.ok()) return AboutGraph(options, std::string(graph.status().message()));
  return ScheduleGraph(options, *std::move(graph));
}

}  // namespace tidepool::tool
