// SPDX-License-Identifier: Apache-2.0
// The answer about a chain: makes, checks and prints its schedule.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

// The policy without --policy.
inline constexpr const char* kDefaultChainPolicy = "greedy";

struct ChainCommandOptions {
  std::string path;                           // of the chain, or of the graph that it was of
  std::optional<Chain> chain = std::nullopt;  // of a graph; empty: the one in the file
  std::string policy = kDefaultChainPolicy;
  std::optional<std::int64_t> memory_bytes = std::nullopt;  // empty: the file's
  ChainPolicyOptions choices = {};
  std::string output = {};       // a file for the chain; empty: none is written
  std::string answer = {};       // one for the object of --json
  bool is_output_rotor = false;  // its format
  bool json = false;
};

// Refuses options of `schedule` that are given and would do nothing for the chain in a file.
absl::Status CheckTakenByChains(const CLI::App& app, const std::string& path);

// Returns the options of a chain among those of a command, which `app` has parsed.
absl::StatusOr<ChainCommandOptions> ChainOptionsOf(const CLI::App& app,
                                                   const OffloadCommandOptions& point);

// Prints that a chain does not fit in the memory, with the fields `more` in JSON; the answer is no.
Answer PrintChainDoesNotFit(const ChainCommandOptions& options, std::int64_t memory_bytes,
                            const std::string& why,
                            const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

// Prints the schedule of a chain; the answer is no where the chain does not fit.
absl::StatusOr<Answer> PrintChainSchedule(const ChainCommandOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_ANSWER_H_
