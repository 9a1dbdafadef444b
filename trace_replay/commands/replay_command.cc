// SPDX-License-Identifier: Apache-2.0
// The command `replay`: serves a trace from a pool of a given size, by placement alone or on a
// device.
#include <memory>
#include <optional>
#include <utility>

#include "trace_replay/command.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/commands/replay_answer.h"
#include "trace_replay/commands/replay_options.h"
#include "trace_replay/commands/timed_replay.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

absl::StatusOr<Answer> RunPyTorch(const ReplayCommandOptions& options) {
  if (absl::Status status = CheckPyTorchReplay(options); !status.ok()) return status;
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  return ReplayPyTorch({.trace = options.trace,
                        .policy = options.policy,
                        .pool_bytes = options.pool_bytes,
                        .settings = options.pytorch_settings,
                        .json = options.json},
                       *measured);
}

absl::StatusOr<Answer> RunReplay(ReplayCommandOptions options) {
  if (absl::Status status = CheckReplayOptions(options); !status.ok()) return status;
  if (IsPyTorchPolicy(options.policy)) return RunPyTorch(options);
  if (absl::Status status = MakePlacementPolicy(options.policy).status(); !status.ok()) {
    return status;
  }
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  std::optional<PlannedTrace> made;
  if (NeedsPlan(options.policy) && !options.learn) {
    absl::StatusOr<PlannedTrace> planned = PlannedOf(options, *measured);
    if (!planned.ok()) return planned.status();
    made = *std::move(planned);
    if (options.pool_bytes < 0) options.pool_bytes = made->placement->height_bytes();
  }
  const PlannedTrace* const planned = made.has_value() ? &*made : nullptr;
  if (absl::Status status = CheckReplayPool(options, planned); !status.ok()) return status;
  const absl::StatusOr<TimedReplay> replay = ReplayTimed(options, *measured, planned);
  if (!replay.ok()) return replay.status();
  if (options.json) {
    PrintReplayJson(options, *measured, planned, *replay);
  } else {
    PrintReplayTable(options, *measured, planned, *replay);
  }
  return replay->result.refused == 0 ? Answer::kYes : Answer::kNo;
}

}  // namespace

Command AddReplay(CLI::App& app) {
  auto options = std::make_shared<ReplayCommandOptions>();
  CLI::App* replay = app.add_subcommand(
      "replay", "Serves a trace from a pool of a given size, simulated or on a device");
  replay->group("Traces");
  AddReplayOptions(*replay, *options);
  AddExamples(*replay, {"tidepool replay examples/traces/vgg16-b4-sgd.rmm.csv.gz --pool 900MiB",
                        "tidepool replay step.tide --policy planned",
                        "tidepool replay step.tide --pool 8GiB --device host --verify"});
  return {replay, [options] { return RunReplay(*options); }};
}

}  // namespace tidepool::tool
