// SPDX-License-Identifier: Apache-2.0
// The options of the command `replay`: declared, and checked against each other.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/pool.h"
#include "tidepool/trace/trace.h"
#include "trace_replay/commands/planned.h"

namespace tidepool::tool {

struct ReplayCommandOptions {
  std::string trace;
  std::string policy = "best-fit";
  std::string pytorch_settings;
  std::string device = "none";
  std::int64_t pool_bytes = -1;  // -1: the height of the plan
  std::string plan;              // a file; empty: the trace is planned
  bool learn = false;            // the pool makes its own plans
  double time_limit_seconds = 10;
  std::int64_t initial_bytes = -1;  // -1: all of the pool
  std::string memory = "auto";
  double growth = PoolOptions().growth;
  bool remap = false;
  std::int64_t alignment = 0;
  std::string recording;
  ReadOptions read;
  bool verify = false;
  bool offsets = false;
  bool json = false;
};

void AddReplayOptions(CLI::App& app, ReplayCommandOptions& options);

// Returns the memory that `--memory` names.
absl::StatusOr<PoolMemory> MemoryOf(const std::string& name);

// Checks options that hold for any trace.
absl::Status CheckReplayOptions(const ReplayCommandOptions& options);
// Checks options for PyTorch's allocator, which has segments of a device instead of a pool.
absl::Status CheckPyTorchReplay(const ReplayCommandOptions& options);
// Checks options that depend on the size of the pool. `planned`: null without a plan.
absl::Status CheckReplayPool(const ReplayCommandOptions& options, const PlannedTrace* planned);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_OPTIONS_H_
