// SPDX-License-Identifier: Apache-2.0
// The recordings of one job, a file for each rank: which rank needs the most, and by how much.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_RANKS_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_RANKS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trace_replay/command.h"

namespace tidepool::tool {

struct Rank {
  std::string file;
  bool has_history = true;
  std::int64_t live_bytes = 0;  // at the peak, or at the end of a recording without history
  std::int64_t needs_bytes = 0;
  std::optional<std::int64_t> reserved_bytes;  // the peak
  std::vector<std::int64_t> refused_bytes;
};

Rank RankOf(const std::string& file, const MeasuredTrace& measured);

// Returns the index of the rank that needs the most, the first among equals. `ranks` is not empty.
std::size_t WorstRank(const std::vector<Rank>& ranks);

// Returns the members of a JSON answer about a job: `needs_bytes` of the worst rank, `worst`, its
// index, and `imbalance`, its needs over the mean of all ranks.
nlohmann::ordered_json JobJson(const std::vector<Rank>& ranks);

// Returns the table of ranks and a line about the worst.
std::string JobText(const std::vector<Rank>& ranks);

// The trace to read, or the traces of a job, the first argument of a command.
CLI::Option* AddRanksArgument(CLI::App& app, std::vector<std::string>& paths);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_RANKS_H_
