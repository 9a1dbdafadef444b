// SPDX-License-Identifier: Apache-2.0
// The option that writes the chain of a schedule to a file.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_FILE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_FILE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/graph_family.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

struct ChainFileOptions {
  std::string path;  // empty: none
  std::string format;
};

// Adds --chain and --chain-format.
void AddChainFileOptions(CLI::App& app, ChainFileOptions& options);
// Refuses a file that is the input or another output, and a format without a file.
absl::Status CheckChainFile(const CLI::App& app, const ChainFileOptions& options,
                            const OffloadCommandOptions& point, const std::string& output);

// Write the chain of the input, or the one that the policy sees of a graph. Without a path they do
// nothing.
absl::Status WriteChainFile(const ChainFileOptions& options, const Chain& chain);
absl::Status WriteChainFile(const ChainFileOptions& options, const OffloadCommandOptions& point,
                            const GraphOrFamily& graphs, std::int64_t batch);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_CHAIN_FILE_H_
