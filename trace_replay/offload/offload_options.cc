#include "trace_replay/offload/offload_options.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/compress/compression_profile.h"

namespace tidepool::tool {
namespace {

// Images are dense: of what leaves, activations alone have zeros to speak of.
std::vector<double> DensitiesOf(const TaskGraph& graph, double density) {
  std::vector<double> densities(graph.data.size(), 1);
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (graph.data[i].kind == DataKind::kActivation) densities[i] = density;
  }
  return densities;
}

absl::StatusOr<CompressionProfile> ProfileOf(const OffloadCommandOptions& options) {
  return options.profile.empty() ? CompressionProfileFromEnvironment()
                                 : ReadCompressionProfile(options.profile);
}

absl::StatusOr<OffloadPolicyOptions> PolicyOptionsOf(const OffloadCommandOptions& options,
                                                     const TaskGraph& graph) {
  OffloadPolicyOptions offload = options.offload;
  const absl::StatusOr<OffloadSet> set = OffloadSetFromName(options.set);
  if (!set.ok()) return set.status();
  const absl::StatusOr<AlgorithmChoice> algorithms = AlgorithmChoiceFromName(options.algorithms);
  if (!algorithms.ok()) return algorithms.status();
  const absl::StatusOr<AllocationOrder> order = AllocationOrderFromName(options.order);
  if (!order.ok()) return order.status();
  const absl::StatusOr<CompressionProfile> profile = ProfileOf(options);
  if (!profile.ok()) return profile.status();
  offload.set = *set;
  offload.algorithms = *algorithms;
  offload.order = *order;
  offload.machine.compression = *profile;
  offload.machine.in_bytes_per_second =
      options.in_bytes_per_second.value_or(offload.machine.out_bytes_per_second);
  if (options.density.has_value()) offload.densities = DensitiesOf(graph, *options.density);
  return offload;
}

absl::Status CheckTimelineFile(const OffloadCommandOptions& options) {
  if (options.json && options.timeline == "/dev/stdout") {
    return absl::InvalidArgumentError(
        "--json: the timeline goes to standard output, expected another file for it");
  }
  std::error_code error;
  if (options.timeline.empty() ||
      !std::filesystem::equivalent(options.graph, options.timeline, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--timeline: ", absl::CHexEscape(options.timeline),
                                                 " is the graph itself, expected another file"));
}

}  // namespace

void AddOffloadOptions(CLI::App& app, OffloadCommandOptions& options) {
  TimelineOptions& machine = options.offload.machine;
  app.add_option("graph", options.graph, "The task graph, as `tidepool model` writes it")
      ->required();
  app.add_option("--policy", options.policy, "none, vdnn or vdnn++")->capture_default_str();
  app.add_option("--offload", options.set,
                 "The layers whose input leaves: all, conv, aconv (every other convolution), or "
                 "dynamic: the quickest that fits, with the algorithms that fit")
      ->capture_default_str();
  app.add_option("--algorithms", options.algorithms,
                 "m: those with the smallest workspaces; p: the fastest")
      ->capture_default_str();
  app.add_option("--order", options.order,
                 "Of allocations in the backward pass: prefetch-first or derivative-first")
      ->capture_default_str();
  AddSizeOption(app, "--memory", machine.memory_bytes, "Of the device")->required();
  app.add_option("--placement", machine.placement, "How memory is placed")->capture_default_str();
  app.add_option("--link", machine.out_bytes_per_second,
                 "Bytes a second of the link, each way; infinity is one")
      ->capture_default_str();
  app.add_option("--link-in", options.in_bytes_per_second, "Back to the device, where it differs");
  app.add_option("--latency", machine.transfer_latency_seconds, "Seconds before each copy")
      ->capture_default_str();
  app.add_flag("--one-way", machine.one_transfer_at_a_time,
               "One copy at a time, as the papers have it, instead of one each way");
  AddSizeOption(app, "--host-memory", machine.host_bytes,
                "For what leaves; what finds no room stays (default: all that is needed)");
  app.add_option("--density", options.density,
                 "Share of values of activations that are not zero: compress where it pays");
  app.add_option("--compression-profile", options.profile,
                 "Of this machine, from `tidepool tune compression` (default: the file that "
                 "TIDEPOOL_COMPRESSION_PROFILE names)")
      ->type_name("FILE");
  app.add_option("--timeline", options.timeline,
                 "A Chrome trace of it, for Perfetto; compressed when it ends in .gz")
      ->type_name("FILE");
  app.add_flag("--json", options.json, "One JSON object");
}

absl::StatusOr<ScheduledGraph> MakeScheduledGraph(const OffloadCommandOptions& options) {
  if (absl::Status status = CheckTimelineFile(options); !status.ok()) return status;
  absl::StatusOr<TaskGraph> graph = ReadGraph(options.graph);
  if (!graph.ok()) return graph.status();
  absl::StatusOr<OffloadPolicyOptions> offload = PolicyOptionsOf(options, *graph);
  if (!offload.ok()) return offload.status();
  absl::StatusOr<Schedule> schedule = MakeSchedule(options.policy, *graph, *offload);
  if (!schedule.ok() && !absl::IsResourceExhausted(schedule.status())) return schedule.status();
  return ScheduledGraph{*std::move(graph), *std::move(offload), std::move(schedule)};
}

}  // namespace tidepool::tool
