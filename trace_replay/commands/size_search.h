// SPDX-License-Identifier: Apache-2.0
// The search of the command `size`: the pools of all policies, and the plans among them.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_SIZE_SEARCH_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_SIZE_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/plan.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/policy_sizes.h"

namespace tidepool::tool {

struct SizeQuestion {
  std::vector<std::string> policies;
  // Whether the user named the policies. Otherwise those that cannot serve the trace are left out.
  bool are_asked_for = false;
  std::string pytorch_settings;
  std::int64_t fits_bytes = -1;  // of --fits; -1: not asked
  bool plan = false;             // also if no policy needs a plan
  double time_limit_seconds = 10;
};

struct SizeAnswer {
  std::vector<PolicySize> sizes;
  std::optional<Plan> plan;  // without waits, if asked
  std::string streams;       // "2 streams, 0 recorded waits"; empty where streams do not matter
};

// Sizes the policies, and shows progress on a terminal.
absl::StatusOr<SizeAnswer> FindSizes(const SizeQuestion& question, const MeasuredTrace& measured);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_SIZE_SEARCH_H_
