// SPDX-License-Identifier: Apache-2.0
// The options of a policy, a machine and compression, one function a group.
#include "trace_replay/offload/offload_options.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tidepool/copies/compression_profile.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/gpu_option.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/modnn_options.h"
#include "trace_replay/offload/pools_tried.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/options.h"
#include "trace_replay/quantity.h"

namespace tidepool::tool {

std::optional<OffloadPolicyInfo> FindPolicy(const std::string& name) {
  for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
    if (policy.name == name) return policy;
  }
  return std::nullopt;
}

namespace {

template <typename Options>
bool Takes(const OffloadPolicyInfo& policy) {
  return std::holds_alternative<Options>(policy.options);
}

// Returns `density` for activations and 1 for other data: images and weights have hardly any zeros.
std::vector<double> DensitiesOf(const TaskGraph& graph, double density) {
  std::vector<double> densities(graph.data.size(), 1);
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (graph.data[i].kind == DataKind::kActivation) densities[i] = density;
  }
  return densities;
}

absl::StatusOr<CompressionProfile> ProfileOf(const OffloadCommandOptions& options) {
  if (!options.profile.empty()) return ReadCompressionProfile(options.profile);
  return CompressionProfileFromEnvironment();
}

constexpr char kMachine[] = "Machine";
constexpr char kPolicy[] = "Policy";
// Shared by the commands: help shows them with --help-all.
constexpr char kMoreOfMachine[] = "More: machine";
constexpr char kLayers[] = "More: policies of layers";
constexpr char kCompression[] = "More: compression";
constexpr char kSearches[] = "More: policies that search";

std::map<std::string, ScheduleMemory> MemoryKindNames() {
  std::map<std::string, ScheduleMemory> names;
  for (const ScheduleMemory kind :
       {ScheduleMemory::kPool, ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    names.emplace(ScheduleMemoryName(kind), kind);
  }
  return names;
}

void AddPolicyOptions(CLI::App& app, OffloadCommandOptions& options) {
  const auto add = [&](const std::string& name, std::string& value, const std::string& text) {
    return app.add_option(name, value, text)
        ->type_name("NAME")
        ->capture_default_str()
        ->group(kLayers);
  };
  add("--algorithms", options.algorithms,
      "p: the fastest algorithm of each task; m: the algorithm with the smallest workspace. "
      "Without "
      "the option, policies of chains try both")
      ->each([&options](const std::string&) { options.choice.has_algorithms = true; });
  add("--order", options.order,
      "Allocate in the backward pass prefetch-first or derivative-first; best: the order with the "
      "smallest pool");
  add("--placement", options.choice.placing.placement,
      "planned (every allocation has its offset beforehand), or a placement policy of the pool; "
      "best: the policy with the smallest pool");
  app.add_option_function<std::string>(
         "--memory-kind",
         [&options](const std::string& name) {
           options.choice.memory_kind = MemoryKindNames().at(name);
         },
         "Memory of the schedule. pool: a placement policy places each allocation. fixed: the "
         "schedule "
         "has "
         "an address for each. paged: memory has pages and no addresses, as with CUDA's virtual "
         "memory, so a schedule is often faster")
      ->check(CLI::IsMember(MemoryKindNames()))
      ->default_str("pool for vdnn and vdnn++, and none in one round; otherwise fixed")
      ->type_name("NAME")
      ->group(kPolicy);
}

CLI::Option* AddLinkOption(CLI::App& app, OffloadCommandOptions& options,
                           const std::string& more = "") {
  return AddRateOption(app, "--link", options.machine.link,
                       absl::StrCat("Rate of the link in each direction, bytes a second, such as "
                                    "12e9, 25GB/s, 16GiB/s or infinity",
                                    more))
      ->default_str("that of the graph's GPU, or 12GB/s")
      ->group(kMachine);
}

// Only policies of graphs can do without a link.
void AddLinkOrNoneOption(CLI::App& app, OffloadCommandOptions& options) {
  AddLinkOption(app, options,
                "; none: nothing is offloaded, as on GPUs that share the host's memory")
      ->transform(
          [&options](const std::string& text) {
            options.machine.has_no_link = text == "none";
            return options.machine.has_no_link ? std::string("infinity") : text;
          },
          "");
}

void AddLatencyOption(CLI::App& app, OffloadCommandOptions& options) {
  AddSecondsOption(app, "--latency", options.machine.latency_seconds,
                   "Delay before each copy, such as 10us")
      ->default_str("0s")
      ->group(kMoreOfMachine);
}

void AddCompressorOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddRateOption(app, "--compressor", options.machine.compressor,
                "Rate at which the device compresses copies out, bytes of data a second; with "
                "`best` and --density")
      ->group(kMoreOfMachine);
  AddRateOption(app, "--decompressor", options.machine.decompressor,
                "Rate at which it decompresses copies in, where that differs from --compressor")
      ->group(kMoreOfMachine);
}

}  // namespace

void AddMachineOptions(CLI::App& app, OffloadCommandOptions& options) {
  MachineOptions& machine = options.machine;
  const std::string group = kMoreOfMachine;
  AddAlignOption(
      app, options.choice.placing.alignment,
      "Bytes of a page with --memory-kind paged, otherwise the alignment of addresses: a "
      "power of two. CUDA's virtual memory has pages of 2MiB")
      ->default_str("512")
      ->group(group);
  AddSizeOption(app, "--host-memory", machine.host_bytes,
                "Memory of the host for offloaded data; data without room stays on the device "
                "(default: unlimited)")
      ->group(kMachine);
  AddLinkOrNoneOption(app, options);
  AddRateOption(app, "--link-in", options.machine.link_in,
                "Rate from host to device, where it differs from --link")
      ->group(group);
  AddLatencyOption(app, options);
  app.add_flag("--one-way", machine.one_way, "Copy in one direction at a time, as in the papers")
      ->group(group);
  AddWholeOption(
      app, "--compute-streams", machine.compute_streams, {1, static_cast<int>(kMostComputeStreams)},
      "Tasks that the device runs at the same time, each in its own time. `best` divides "
      "the branches of a graph among them")
      ->default_str("1")
      ->group(group);
  AddCompressorOptions(app, options);
}

void AddDensityOption(CLI::App& app, OffloadCommandOptions& options) {
  app.add_option_function<std::string>(
         "--density",
         [&options](const std::string& text) {
           double density = 0;
           if (!absl::SimpleAtod(text, &density) || !(density >= 0 && density <= 1)) {
             throw CLI::ValidationError(
                 "--density", absl::StrCat("'", absl::CHexEscape(text), "', expected 0 to 1"));
           }
           options.density = density;
         },
         "Share of values of activations that are not zero; compress copies where that pays, on "
         "the host for pools, and on the device for `best` with --compressor "
         "(default: no compression)")
      ->type_name("NUMBER")
      ->group(kCompression);
}

namespace {

void AddCompressionOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddDensityOption(app, options);
  app.add_option("--compression-profile", options.profile,
                 "Profile of this machine from `tidepool tune compression --save` (default: the "
                 "file in the environment variable TIDEPOOL_COMPRESSION_PROFILE)")
      ->type_name("FILE")
      ->group(kCompression);
}

// Whether the policy searches: "best", or one of chains.
bool Searches(const OffloadPolicyInfo& policy) {
  return Takes<BestOptions>(policy) || Takes<GraphChainOptions>(policy);
}

// Returns an error for a time of 0. Other texts are the parser's.
std::string MoreThanNoTime(const std::string& text) {
  const absl::StatusOr<double> seconds = ParseSeconds(text);
  const bool is_none = seconds.ok() && *seconds <= 0;
  return is_none ? absl::StrCat("'", absl::CHexEscape(text), "', expected more than 0 seconds")
                 : std::string();
}

void AddSearchOptions(CLI::App& app, PolicyChoice& choice) {
  AddBestOptions(app, choice);
  AddWholeOption(app, "--slots", choice.chain.slots, {0, 1'000'000},
                 "Divide the memory into N slots, where a policy computes in slots; 0: the "
                 "policy's choice")
      ->group(kSearches);
}

}  // namespace

void AddChainSearchOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddSearchOptions(app, options.choice);
  AddLinkOption(app, options);
  app.add_flag("--duplex", options.choice.chain.copies.full_duplex,
               "Copy in both directions at once; without the option there is one transfer at a "
               "time. `best` alone takes it, and --latency")
      ->group(kMoreOfMachine);
  AddLatencyOption(app, options);
  AddDensityOption(app, options);
  AddCompressorOptions(app, options);
}

void AddBestOptions(CLI::App& app, PolicyChoice& choice) {
  ChainPolicyOptions& options = choice.chain;
  AddSecondsOption(
      app, "--time-limit", options.time_limit_seconds,
      "Time limit of a policy's search. `best` counts its work and ends after about this time, by "
      "the clock only on a slower machine; a longer limit never makes its schedule slower. Where "
      "nothing fits, it may take as long again to find a memory that would do")
      ->check(MoreThanNoTime, "")
      ->default_str("2s")
      ->group(kPolicy);
  AddWholeOption(app, "--seed", options.seed, {0, UINT64_MAX}, "Seed of a random search")
      ->type_name("NUMBER")
      ->group(kSearches);
  app.add_option("--recompute", choice.recompute,
                 "Whether `best` may run tasks again: on or off (default: on for graphs, off for "
                 "chains)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("NAME")
      ->group(kSearches);
  AddSizeOption(app, "--part", choice.part_bytes,
                "Let `best` also copy data in parts of this size. The memory of a part is free as "
                "soon as the part is sent")
      ->group(kSearches);
}

absl::StatusOr<CopyCompressor> CompressorOf(const MachineOptions& options) {
  if (options.compressor.has_value()) {
    return CopyCompressor{*options.compressor, options.decompressor.value_or(*options.compressor)};
  }
  if (!options.decompressor.has_value()) return CopyCompressor();
  return absl::InvalidArgumentError(
      "--decompressor: there is no compressor, expected --compressor");
}

void Override(const MachineOptions& given, Machine& machine) {
  for (MachineDevice& device : machine.devices) {
    device.memory_bytes = given.memory_bytes.value_or(device.memory_bytes);
    if (given.compute_streams.has_value()) {
      device.compute_streams = static_cast<std::size_t>(*given.compute_streams);
    }
    if (given.compressor.has_value()) device.compressor = CompressorOf(given).value();
  }
  for (MachineLink& link : machine.links) {
    link.out_bytes_per_second = given.link.value_or(link.out_bytes_per_second);
    link.in_bytes_per_second =
        given.link_in.value_or(given.link.value_or(link.in_bytes_per_second));
    link.latency_seconds = given.latency_seconds.value_or(link.latency_seconds);
    link.full_duplex = link.full_duplex && !given.one_way;
  }
  machine.peers.bytes_per_second = given.peers.value_or(machine.peers.bytes_per_second);
  machine.peers.is_bus = machine.peers.is_bus || given.has_peer_bus;
  machine.host.memory_bytes = given.host_bytes.value_or(machine.host.memory_bytes);
}

Machine MachineOf(const OffloadCommandOptions& options, const TaskGraph& graph) {
  Machine machine;
  machine.devices.resize(static_cast<std::size_t>(options.devices));
  if (DividesBatch(options)) machine.host.cores = static_cast<std::size_t>(options.host_cores);
  if (graph.link_bytes_per_second > 0) {
    MachineLink& link = machine.links.front();
    link.out_bytes_per_second = link.in_bytes_per_second = graph.link_bytes_per_second;
  }
  Override(options.machine, machine);
  return machine;
}

absl::StatusOr<PolicyChoice> ChoiceOf(const OffloadCommandOptions& options,
                                      const TaskGraph& graph) {
  PolicyChoice choice = options.choice;
  if (options.machine.has_no_link && options.machine.link_in.has_value()) {
    return absl::InvalidArgumentError(
        "--link-in: there is no link (--link none), remove one of the two options");
  }
  const absl::StatusOr<OffloadSet> set = OffloadSetFromName(options.set);
  if (!set.ok()) return set.status();
  const absl::StatusOr<AlgorithmChoice> algorithms = AlgorithmChoiceFromName(options.algorithms);
  if (!algorithms.ok()) return algorithms.status();
  const absl::StatusOr<std::vector<AllocationOrder>> orders = OrdersOf(options);
  if (!orders.ok()) return orders.status();
  const absl::StatusOr<CompressionProfile> profile = ProfileOf(options);
  if (!profile.ok()) return profile.status();
  const GpuRates* const gpu = KnownGpu(graph.gpu);
  choice.offloads = !options.machine.has_no_link && (gpu == nullptr || !gpu->is_integrated);
  choice.layerwise.set = *set;
  choice.layerwise.algorithms = *algorithms;
  choice.layerwise.order = orders->front();
  choice.placing.compression = *profile;
  if (absl::Status status = CompressorOf(options.machine).status(); !status.ok()) return status;
  choice.machine = MachineOf(options, graph);
  if (options.density.has_value())
    choice.layerwise.densities = DensitiesOf(graph, *options.density);
  return choice;
}

namespace {

// `best` has an option to send nothing.
bool NeedsNoLink(const OffloadPolicyInfo& policy) {
  return !policy.sends || Takes<BestOptions>(policy);
}
bool SendsLayers(const OffloadPolicyInfo& policy) {
  return policy.sends && Takes<LayerwiseOptions>(policy);
}

// Returns the names of the policies for which `is_named` returns true: "none, base or vdnn".
std::string NamesOf(bool (*is_named)(const OffloadPolicyInfo&)) {
  std::vector<std::string> names;
  for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
    if (is_named(policy)) names.push_back(policy.name);
  }
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

// Refuses policies that send data where there is no link. A schedule of a file may not send any.
absl::Status CheckSendsNothing(const OffloadCommandOptions& options,
                               const std::vector<std::string>& policies) {
  if (!options.machine.has_no_link) return absl::OkStatus();
  for (const std::string& name : policies) {
    const std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
    if (!policy.has_value() || NeedsNoLink(*policy)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--link none: policy ", name, " sends data to the host, expected ", NamesOf(NeedsNoLink)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPolicyOptions(const CLI::App& app, const OffloadCommandOptions& options,
                                const std::vector<std::string>& policies) {
  if (absl::Status status = CheckDivisionOptions(app, options); !status.ok()) return status;
  std::vector<OffloadPolicyInfo> asked;
  for (const std::string& name : policies) {
    std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
    if (!policy.has_value()) return absl::OkStatus();  // refused later, with the known names
    asked.push_back(*std::move(policy));
  }
  const bool any_layerwise = absl::c_any_of(asked, Takes<LayerwiseOptions>);
  const bool any_chain = absl::c_any_of(asked, Takes<GraphChainOptions>);
  const bool any_best = absl::c_any_of(asked, Takes<BestOptions>);
  const std::string layerwise = NamesOf(Takes<LayerwiseOptions>);
  const std::string best = NamesOf(Takes<BestOptions>);
  const std::string chains = "a policy of chains such as greedy or dynprog";
  const auto check = [&](bool is_taken, absl::Span<const char* const> names,
                         std::string_view takers) -> absl::Status {
    if (is_taken) return absl::OkStatus();
    return Refuse(app, names,
                  absl::StrCat("policy ", absl::StrJoin(policies, ", "),
                               " has no such option, expected it with ", std::string(takers)));
  };
  absl::Status status =
      check(any_best || any_chain, {"--seed"}, absl::StrCat(best, ", or ", chains));
  if (status.ok()) status = check(any_chain, {"--slots"}, chains);
  if (status.ok()) {
    status = check(any_layerwise || any_chain, {"--algorithms"},
                   absl::StrCat(layerwise, ", or ", chains));
  }
  if (status.ok()) {
    status = check(absl::c_any_of(asked, Takes<ModnnOptions>), kModnnOptions,
                   NamesOf(Takes<ModnnOptions>));
  }
  if (status.ok()) {
    status = check(any_best,
                   {"--recompute", "--part", "--compressor", "--decompressor", "--compute-streams"},
                   best);
  }
  if (status.ok()) status = check(any_layerwise, {"--order", "--placement"}, layerwise);
  if (status.ok()) {
    status = check(absl::c_any_of(asked, SendsLayers), {"--offload"}, NamesOf(SendsLayers));
  }
  if (status.ok()) status = CheckSendsNothing(options, policies);
  if (!status.ok()) return status;
  if (app.count("--compressor") > 0 && app.count("--density") == 0) {
    return absl::InvalidArgumentError(
        "--compressor: no copy is compressed without a density, expected --density too");
  }
  return check(any_layerwise || app.count("--compressor") > 0, {"--density"},
               absl::StrCat(layerwise, ", or with ", best, " and --compressor"));
}

bool IsLayerwise(const std::string& name) {
  const std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
  return policy.has_value() && Takes<LayerwiseOptions>(*policy);
}

bool TakesSet(const std::string& name) {
  const std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
  return policy.has_value() && SendsLayers(*policy);
}

bool EndsAtStop(const std::string& name) {
  const std::optional<OffloadPolicyInfo> policy = FindPolicy(name);
  return policy.has_value() && Searches(*policy);
}

std::string PolicyHelp() {
  return absl::StrCat("Offload policy: ",
                      absl::StrJoin(OffloadPolicies(), "; ",
                                    [](std::string* text, const OffloadPolicyInfo& policy) {
                                      absl::StrAppend(text, policy.name, ", ", policy.description);
                                    }));
}

CLI::Option* AddScheduleJsonOption(CLI::App& app, bool& json) {
  return AddJsonOption(app, json)->description(
      "Print one JSON object instead of tables. No schedule that runs the tasks in the same order "
      "in this memory is faster than its lower_bound_seconds");
}

const char* const kOffloadHelp =
    "Copy the inputs of these layers to the host: conv, aconv (every other conv), all (but the "
    "linear layers that end a network of convolutions), or dynamic (the fastest of these that "
    "fits, or a share of one)";

void AddPointOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddSizeOption(app, "--memory", options.machine.memory_bytes, "Memory of the device")
      ->group(kMachine);
  app.add_option("--policy", options.policy, PolicyHelp())
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kPolicy);
  app.add_option("--offload", options.set, kOffloadHelp)
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kLayers);
}

void AddDecisionOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddPolicyOptions(app, options);
  AddMachineOptions(app, options);
  AddCompressionOptions(app, options);
  AddDivisionOptions(app, options);
  AddModnnOptions(app, options);
  AddSearchOptions(app, options.choice);
}

void AddOffloadOptions(CLI::App& app, OffloadCommandOptions& options) {
  AddScheduleFileOption(app, options);
  AddDecisionOptions(app, options);
  app.add_option("--timeline", options.timeline,
                 "Write the timeline to this Chrome trace, for ui.perfetto.dev; compressed if the "
                 "name ends in .gz")
      ->type_name("FILE");
  AddScheduleJsonOption(app, options.json);
}

absl::Status CheckTimelineFile(const OffloadCommandOptions& options) {
  if (absl::Status status = CheckJsonOutput(options.json, options.timeline, "timeline");
      !status.ok()) {
    return status;
  }
  std::error_code error;
  if (options.timeline.empty() ||
      !std::filesystem::equivalent(options.graph, options.timeline, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--timeline: ", absl::CHexEscape(options.timeline),
                                                 " is the graph itself, expected another file"));
}

}  // namespace tidepool::tool
