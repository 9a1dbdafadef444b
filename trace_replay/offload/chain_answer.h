// SPDX-License-Identifier: Apache-2.0
// The answer of `schedule` about a chain: makes, checks and prints its schedule.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/schedule/chain_policy.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/chain_file.h"

namespace tidepool::tool {

// The policy without --policy.
inline constexpr const char* kDefaultChainPolicy = "greedy";

struct ChainCommandOptions {
  std::string path;
  std::string policy = kDefaultChainPolicy;
  std::optional<std::int64_t> memory_bytes = std::nullopt;  // empty: the file's
  ChainPolicyOptions choices = {};
  ChainFileOptions file = {};
  bool json = false;
};

// Prints the schedule of the chain in a file; the answer is no where the chain does not fit.
absl::StatusOr<Answer> PrintChainSchedule(const ChainCommandOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_
