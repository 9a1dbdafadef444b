// SPDX-License-Identifier: Apache-2.0
// The options of the command `replay`.
#include "trace_replay/commands/replay_options.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// Returns the first given option that only applies to a pool on a device; empty without one.
std::string OptionOfDevices(const ReplayCommandOptions& options) {
  if (options.verify) return "--verify";
  if (!options.recording.empty()) return "--record";
  if (options.learn) return "--learn";
  if (options.initial_bytes >= 0) return "--initial";
  if (options.remap) return "--remap";
  if (options.memory != "auto") return "--memory";
  return options.growth != PoolOptions().growth ? "--growth" : "";
}

absl::Status CheckPlanOptions(const ReplayCommandOptions& options) {
  if (options.learn && (!NeedsPlan(options.policy) || !options.plan.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--learn: the pool makes its own plans, expected --policy ",
                     NamesThatNeedPlans(), " and no --plan"));
  }
  if (NeedsPlan(options.policy) && (!options.learn || options.pool_bytes >= 0)) {
    return absl::OkStatus();
  }
  if (!options.plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--plan: policy ", absl::CHexEscape(options.policy),
                     " follows no plan, expected --policy ", NamesThatNeedPlans()));
  }
  if (options.pool_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("replay: --pool is missing, expected a size, or --policy ", NamesThatNeedPlans(),
                   " without --learn, which takes the height of its plan"));
}

void AddPlacementOptions(CLI::App& app, ReplayCommandOptions& options) {
  AddSizeOption(app, "--pool", options.pool_bytes,
                "Size of the pool (default with --policy planned: the height of the plan)");
  app.add_option("--policy", options.policy,
                 "Placement policy; or pytorch or pytorch-expandable, PyTorch's own allocator on a "
                 "device of that memory, with --device none")
      ->type_name("NAME")
      ->capture_default_str();
  AddPyTorchSettingsOption(app, options.pytorch_settings);
}

void AddPlanOptions(CLI::App& app, ReplayCommandOptions& options) {
  const std::string group = "With --policy planned";
  app.add_option("--plan", options.plan,
                 "Follow the plan in this file, from `tidepool plan -o` (default: plan the trace "
                 "first)")
      ->type_name("FILE")
      ->group(group);
  AddTimeLimitOption(app, options.time_limit_seconds,
                     "Stop the search for a plan after this time with the best plan so far")
      ->group(group);
  app.add_flag("--learn", options.learn,
               "Let the pool plan iterations that it sees while the trace runs, instead of the "
               "whole trace: marks named `iteration`, or repeated requests; not with --device none")
      ->group(group);
}

void AddPoolMemoryOptions(CLI::App& app, ReplayCommandOptions& options, const std::string& group) {
  AddSizeOption(app, "--initial", options.initial_bytes,
                "Memory that the pool reserves at the start (default: all of --pool)")
      ->group(group);
  AddNumberOption(app, "--growth", options.growth, {.least = 0, .most = 1},
                  "Grow by at least this part of the pool's size")
      ->group(group);
  app.add_option("--memory", options.memory,
                 "virtual: one range of addresses, to which the pool maps memory; segments: whole "
                 "allocations of the device; auto: virtual where the device has it")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--remap", options.remap,
               "Move free memory, 2 MiB at a time, to where a request fits instead of refusing it")
      ->group(group);
}

void AddDeviceOptions(CLI::App& app, ReplayCommandOptions& options) {
  const std::string group = "On a device (not with --device none)";
  app.add_option("--device", options.device,
                 "none: placement alone; host: a live pool on a device made of the host; cuda: a "
                 "live pool on the first GPU. A live pool reports latencies. With several streams "
                 "its offsets may differ: it prefers blocks that no stream must wait for")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--verify", options.verify,
               "Write each buffer, and check its contents before its free; host only")
      ->group(group);
  app.add_option("--record", options.recording, "Record the pool's requests to this native trace")
      ->type_name("FILE")
      ->group(group);
  AddPoolMemoryOptions(app, options, group);
}

}  // namespace

void AddReplayOptions(CLI::App& app, ReplayCommandOptions& options) {
  AddTraceArgument(app, options.trace);
  AddPlacementOptions(app, options);
  AddPlanOptions(app, options);
  AddDeviceOptions(app, options);
  app.add_flag("--offsets", options.offsets,
               "Also print the offset of each allocation; -1: refused");
  AddAlignOption(app, options.alignment);
  AddTraceDeviceOption(app, options.read, DeviceAlias::kTaken);
  AddJsonOption(app, options.json);
}

absl::StatusOr<PoolMemory> MemoryOf(const std::string& name) {
  if (name == "auto") return PoolMemory::kAutomatic;
  if (name == "virtual") return PoolMemory::kVirtual;
  if (name == "segments") return PoolMemory::kSegments;
  return absl::InvalidArgumentError(
      absl::StrCat("--memory: '", absl::CHexEscape(name), "', expected auto, virtual or segments"));
}

absl::Status CheckReplayOptions(const ReplayCommandOptions& options) {
  if (options.device != "none" && options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--device: '", absl::CHexEscape(options.device),
                                                   "', expected none, host or cuda"));
  }
  if (options.device == "cuda" && options.verify) {
    return absl::InvalidArgumentError(
        "--verify: the host cannot look into the memory of a GPU, expected --device host");
  }
  if (absl::Status status = CheckPlanOptions(options); !status.ok()) return status;
  if (absl::Status status = MemoryOf(options.memory).status(); !status.ok()) return status;
  if (absl::Status status = CheckPyTorchSettings(options.pytorch_settings, {options.policy});
      !status.ok()) {
    return status;
  }
  const std::string option = OptionOfDevices(options);
  if (options.device == "none" && !option.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": --device none is placement alone, expected --device host"));
  }
  return absl::OkStatus();
}

absl::Status CheckReplayPool(const ReplayCommandOptions& options, const PlannedTrace* planned) {
  if (options.initial_bytes > options.pool_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--initial: ", ExactSizeText(options.initial_bytes),
                     ", expected at most the pool, ", ExactSizeText(options.pool_bytes)));
  }
  if (planned == nullptr || options.device == "none") return absl::OkStatus();
  const std::int64_t height = planned->placement->height_bytes();
  if (options.pool_bytes >= height) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--pool: ", ExactSizeText(options.pool_bytes), ", expected at least the plan's height, ",
      ExactSizeText(height), ", for a pool on a device"));
}

absl::Status CheckPyTorchReplay(const ReplayCommandOptions& options) {
  if (options.device != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: ", options.device, " serves pools, and policy ", options.policy,
                     " models PyTorch's allocator: use --device none"));
  }
  const std::string refused = options.offsets         ? "--offsets"
                              : options.alignment > 0 ? "--align"
                                                      : "";
  if (refused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(refused, ": policy ", options.policy,
                   " has segments and sizes of its own, expected a placement policy"));
}

}  // namespace tidepool::tool
