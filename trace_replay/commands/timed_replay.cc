// SPDX-License-Identifier: Apache-2.0
// Replays of the command `replay`.
#include "trace_replay/commands/timed_replay.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "tidepool/host_device.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"
#include "trace_replay/caller.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/replay/available_memory.h"
#include "trace_replay/replay/cuda_devices.h"
#include "trace_replay/replay/live_replay.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct DeviceReplayOptions {
  std::string device;  // "host" or "cuda"
  std::string trace;   // the file
  std::string policy;
  // The plan for a placement that needs one: the whole trace is one iteration. At most as high as
  // the pool. Null: the pool makes its own plans.
  std::shared_ptr<const PlacementPlan> plan;
  std::int64_t pool_bytes = 0;
  std::int64_t initial_bytes = 0;  // at most the pool
  PoolMemory memory = PoolMemory::kAutomatic;
  double growth = 0;
  bool remap = false;
  bool verify = false;
  std::string recording;  // the file to record to; empty: no recording
};

absl::Status CheckPoolMemory(std::int64_t pool_bytes) {
  const std::optional<std::int64_t> available = AvailableMemory();
  if (!available.has_value() || pool_bytes <= *available) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--verify: writes a pool of ", ExactSizeText(pool_bytes), ", and ",
                   ExactSizeText(*available), " of memory are available, expected a smaller pool"));
}

absl::Status CheckRecording(const DeviceReplayOptions& options) {
  std::error_code error;
  if (options.recording.empty() ||
      !std::filesystem::equivalent(options.trace, options.recording, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--record: ", absl::CHexEscape(options.recording),
                                                 " is the trace itself, expected another file"));
}

constexpr std::int64_t kGpuGranularity = std::int64_t{2} << 20;

absl::Status Check(const DeviceReplayOptions& options, std::int64_t pool_bytes,
                   std::int64_t alignment) {
  if (pool_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--pool: ", ExactSizeText(options.pool_bytes), ", expected at least the alignment, ",
        ExactSizeText(alignment), ", for a pool on a device"));
  }
  if (options.remap && pool_bytes < kGpuGranularity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--pool: ", ExactSizeText(options.pool_bytes), ", expected at least ",
        ExactSizeText(kGpuGranularity), " with --remap, which moves that much at a time"));
  }
  if (absl::Status status = CheckRecording(options); !status.ok()) return status;
  return options.verify ? CheckPoolMemory(pool_bytes) : absl::OkStatus();
}

// Makes a host device as large as the pool. Its granularity is at least the alignment, because a
// pool cannot align beyond its device. The cost of remapping depends on the granularity, so with
// `remap` it is a GPU's.
absl::StatusOr<std::unique_ptr<Device>> MakeHostDevice(std::int64_t pool_bytes,
                                                       std::int64_t alignment, bool remap) {
  HostDeviceOptions options;
  if (remap) options.granularity = kGpuGranularity;
  options.granularity = std::max(options.granularity, alignment);
  options.memory_bytes = AlignUp(pool_bytes, options.granularity);
  return HostDevice::Create(options);
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const DeviceReplayOptions& options,
                                                   std::int64_t pool_bytes,
                                                   std::int64_t alignment) {
  if (options.device == "cuda") return MakeCudaDevice();
  absl::StatusOr<std::unique_ptr<Device>> device =
      MakeHostDevice(pool_bytes, alignment, options.remap);
  return device.ok() ? std::move(device) : AboutFile(options.trace, device.status());
}

// Returns null for an empty path.
absl::StatusOr<std::unique_ptr<Recorder>> OpenRecording(const std::string& path,
                                                        std::int64_t alignment) {
  if (path.empty()) return nullptr;
  return Recorder::Create({.path = path, .alignment = alignment});
}

// Removes the recording of a replay that failed with `error`. Returns the error of the recording if
// it failed too: it came first.
absl::Status Discard(Recorder& recorder, const std::string& path, const absl::Status& error) {
  absl::Status written = recorder.Close();
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return written.ok() ? error : written;
}

// Adds advice to an error of a device that ran out of memory or streams.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), ", expected a smaller pool or fewer streams"));
}

// Serves a trace from a pool on a device. The host device is as large as the pool. A failed replay
// leaves no recording. Errors name the file or the option.
absl::StatusOr<LiveReplay> ReplayOnDevice(const MeasuredTrace& measured,
                                          const DeviceReplayOptions& options) {
  const std::int64_t alignment = measured.alignment;
  const std::int64_t pool_bytes = options.pool_bytes & -alignment;
  if (absl::Status status = Check(options, pool_bytes, alignment); !status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice(options, pool_bytes, alignment);
  if (!device.ok()) return device.status();
  const absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      OpenRecording(options.recording, alignment);
  if (!recorder.ok()) return recorder.status();
  const int most_plans = options.plan == nullptr ? PoolOptions().most_plans : 0;
  absl::StatusOr<LiveReplay> replay = ReplayLive(*measured.trace, **device,
                                                 {.pool = {.initial_bytes = options.initial_bytes,
                                                           .max_bytes = pool_bytes,
                                                           .memory = options.memory,
                                                           .alignment = alignment,
                                                           .placement = options.policy,
                                                           .plan = options.plan,
                                                           .most_plans = most_plans,
                                                           .growth = options.growth,
                                                           .remap = options.remap},
                                                  .recorder = recorder->get(),
                                                  .verify = options.verify});
  if (replay.ok()) return replay;
  absl::Status error = AboutFile(options.trace, WithAdvice(replay.status()));
  return *recorder == nullptr ? error : Discard(**recorder, options.recording, error);
}

absl::StatusOr<TimedReplay> ReplayByPlacement(const ReplayCommandOptions& options,
                                              const MeasuredTrace& measured,
                                              const PlannedTrace* planned) {
  std::unique_ptr<PlacementPolicy> policy;
  const PlannedPlacement* counting = nullptr;
  if (planned == nullptr) {
    policy = MakePlacementPolicy(options.policy).value();
  } else {
    std::unique_ptr<PlannedPlacement> made = PlannedPlacement::Create({planned->placement});
    counting = made.get();
    policy = std::move(made);
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ReplayResult> result = Replay(*measured.trace, *policy,
                                               {.pool_bytes = options.pool_bytes,
                                                .alignment = measured.alignment,
                                                .keep_offsets = options.offsets,
                                                .stop = CallerStop()});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result.ok()) return AboutFile(options.trace, result.status());
  TimedReplay replay{*std::move(result), elapsed.count(), std::nullopt, std::nullopt};
  if (counting != nullptr) replay.counts = counting->counts();
  return replay;
}

absl::StatusOr<TimedReplay> ReplayFromPool(const ReplayCommandOptions& options,
                                           const MeasuredTrace& measured,
                                           const PlannedTrace* planned) {
  const std::int64_t pool_bytes = options.pool_bytes & -measured.alignment;
  const std::int64_t wanted = options.initial_bytes < 0 ? pool_bytes : options.initial_bytes;
  absl::StatusOr<LiveReplay> live =
      ReplayOnDevice(measured, {.device = options.device,
                                .trace = options.trace,
                                .policy = options.policy,
                                .plan = planned == nullptr ? nullptr : planned->placement,
                                .pool_bytes = options.pool_bytes,
                                .initial_bytes = std::min(wanted, pool_bytes),
                                .memory = *MemoryOf(options.memory),
                                .growth = options.growth,
                                .remap = options.remap,
                                .verify = options.verify,
                                .recording = options.recording});
  if (!live.ok()) return live.status();
  TimedReplay replay{std::move(live->placement), live->seconds, std::nullopt, std::nullopt};
  if (planned != nullptr) replay.counts = {live->pool.planned, live->pool.deviations};
  replay.live = *std::move(live);
  return replay;
}

// Returns a plan that fits into the pool because streams wait; no value without such a plan.
std::optional<PlannedTrace> PlannedWithWaits(const ReplayCommandOptions& options,
                                             const MeasuredTrace& measured) {
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kAllowed, options.pool_bytes, options.time_limit_seconds);
  if (!plan.ok() || plan->height > options.pool_bytes) return std::nullopt;
  PlannedTrace planned = ToPlanned(measured, *plan);
  planned.streams_wait = true;
  return planned;
}

}  // namespace

absl::StatusOr<PlannedTrace> PlannedOf(const ReplayCommandOptions& options,
                                       const MeasuredTrace& measured) {
  if (!options.plan.empty()) return ReadPlanned(options.plan, measured);
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kNone, std::nullopt, options.time_limit_seconds);
  if (!plan.ok()) return AboutFile(options.trace, plan.status());
  PlannedTrace planned = ToPlanned(measured, *plan);
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kNone);
  if (!problem.ok() || !HasOrderedStreams(*problem)) return planned;
  planned.streams_wait = false;
  if (options.pool_bytes < 0 || plan->height <= options.pool_bytes) return planned;
  return PlannedWithWaits(options, measured).value_or(planned);
}

absl::StatusOr<TimedReplay> ReplayTimed(const ReplayCommandOptions& options,
                                        const MeasuredTrace& measured,
                                        const PlannedTrace* planned) {
  return options.device == "none" ? ReplayByPlacement(options, measured, planned)
                                  : ReplayFromPool(options, measured, planned);
}

}  // namespace tidepool::tool
