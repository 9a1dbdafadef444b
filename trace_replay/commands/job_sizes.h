// SPDX-License-Identifier: Apache-2.0
// The pools of a job: for each policy the largest that any rank needs.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_JOB_SIZES_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_JOB_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trace_replay/commands/ranks.h"

namespace tidepool::tool {

class JobSizes {
 public:
  void Add(Rank rank) { ranks_.push_back(std::move(rank)); }
  // Adds a pool that the last rank needs.
  void AddPool(const std::string& policy, std::int64_t pool_bytes);

  // Whether the memory is enough for each rank; true for negative bytes, which ask nothing.
  bool Fits(std::int64_t memory_bytes) const;
  // Returns JobJson, the largest pool of each policy and, unless `memory_bytes` is negative,
  // whether the job fits: null if the live memory of ranks without history does.
  nlohmann::ordered_json Json(std::int64_t memory_bytes) const;
  // Returns these figures for people.
  std::string Text(std::int64_t memory_bytes) const;

 private:
  struct Pool {
    std::string policy;
    std::int64_t bytes = 0;
    std::size_t rank = 0;
  };

  bool LacksHistory() const;
  std::int64_t needs_bytes() const { return ranks_[WorstRank(ranks_)].needs_bytes; }

  std::vector<Rank> ranks_;
  std::vector<Pool> pools_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_JOB_SIZES_H_
