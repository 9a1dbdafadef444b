// SPDX-License-Identifier: Apache-2.0
// Options of `schedule`, `front`, `emit`, `simulate` and `run`: a graph, a machine, an offload
// policy.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

// A machine, and the choices of policies.
struct PolicyChoice {
  Machine machine = {};
  PlacingOptions placing = {};
  LayerwiseOptions layerwise = {};
  ChainPolicyOptions chain = {};
  ModnnOptions modnn = {};
  std::string recompute = {};   // "on" or "off"; empty: on for graphs, off for chains
  std::int64_t part_bytes = 0;  // of copies by `best`; 0: whole data
  // Schedules of earlier searches (--known): that of `best` is no slower.
  std::vector<Schedule> known = {};
  bool offloads = true;  // of `best`: false without a link, as where the host shares its memory
  std::optional<ScheduleMemory> memory_kind = std::nullopt;  // empty: the policy's choice
  bool has_algorithms = false;                               // an option gave them
};

// The value of --order and --placement that tries all of them for the smallest pool.
inline constexpr char kTriesAll[] = "best";

// The machine that options describe; empty: no option tells.
struct MachineOptions {
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> host_bytes;
  std::optional<double> link;     // bytes per second, in both directions
  bool has_no_link = false;       // data leaves for the host by no copy
  std::optional<double> link_in;  // to the device
  std::optional<double> latency_seconds;
  bool one_way = false;  // a flag can only tell that it is so
  std::optional<int> compute_streams;
  std::optional<double> compressor;    // bytes per second
  std::optional<double> decompressor;  // that of the compressor where it is empty
  std::optional<double> peers;         // bytes per second
  bool has_peer_bus = false;
};
// Gives all devices, all links and the host of a machine the values of the options that were given.
void Override(const MachineOptions& given, Machine& machine);

struct OffloadCommandOptions {
  std::string graph;
  MachineOptions machine;
  std::string policy = "vdnn++";
  std::string set = "conv";
  std::string algorithms = "p";
  std::string order = "prefetch-first";  // or kTriesAll
  std::optional<double> density;
  std::string schedule;  // a file; empty: the policy makes one
  std::string profile;   // a file; empty: the environment's
  std::string timeline;  // a file; empty: none is written
  bool json = false;
  std::int64_t sub_batch = kWholeBatch;  // or kLargestSubBatch, or samples
  int devices = 1;
  bool host_updates = false;
  int host_cores = 8;
  GradientReduction reduction = GradientReduction::kAutomatic;
  PolicyChoice choice = {.placing = {.placement = "planned"}};
};

// Refuses options that none of the policies takes, and those of CheckDivisionOptions.
absl::Status CheckPolicyOptions(const CLI::App& app, const OffloadCommandOptions& options,
                                const std::vector<std::string>& policies);
// Returns the policy of a name, or none.
std::optional<OffloadPolicyInfo> FindPolicy(const std::string& name);
// Return whether the policy offloads a set of layers, whether it chooses layer by layer, in an
// order and a pool, and the description of --policy.
bool TakesSet(const std::string& policy);
bool IsLayerwise(const std::string& policy);
std::string PolicyHelp();
// Returns whether a stop ends the policy's search with the best schedule so far.
bool EndsAtStop(const std::string& policy);
// Adds --json to a command with the lower bound of a schedule in its answer.
CLI::Option* AddScheduleJsonOption(CLI::App& app, bool& json);
// Description of --offload.
extern const char* const kOffloadHelp;

// Adds --memory, --policy and --offload with a single value each.
void AddPointOptions(CLI::App& app, OffloadCommandOptions& options);
// Add the options of a machine but for its memory, the density of activations, and the options of
// `best`.
void AddMachineOptions(CLI::App& app, OffloadCommandOptions& options);
void AddDensityOption(CLI::App& app, OffloadCommandOptions& options);
void AddBestOptions(CLI::App& app, PolicyChoice& choice);
// Adds the options of searches and copies that chains take.
void AddChainSearchOptions(CLI::App& app, OffloadCommandOptions& options);
// Adds those, and the other options of policies and compression.
void AddDecisionOptions(CLI::App& app, OffloadCommandOptions& options);
// Adds those, and the options of the output.
void AddOffloadOptions(CLI::App& app, OffloadCommandOptions& options);
// Refuses a timeline file that is the graph or belongs to other output.
absl::Status CheckTimelineFile(const OffloadCommandOptions& options);

// Returns the compressor of the options, which may be none. InvalidArgument for half of one.
absl::StatusOr<CopyCompressor> CompressorOf(const MachineOptions& options);
// Returns the machine of valid options; its link is the graph's unless they tell.
Machine MachineOf(const OffloadCommandOptions& options, const TaskGraph& graph);
// Returns the policy's options for a graph. Errors are those of names and of the profile.
absl::StatusOr<PolicyChoice> ChoiceOf(const OffloadCommandOptions& options, const TaskGraph& graph);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_OFFLOAD_OPTIONS_H_
