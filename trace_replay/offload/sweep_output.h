// SPDX-License-Identifier: Apache-2.0
// Sweeps as tables, CSV and JSON.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OUTPUT_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trace_replay/offload/sweep.h"

namespace tidepool::tool {

// The questions of a sweep, answered. A question that was not asked has no answers.
struct SweepAnswers {
  std::vector<SweepAnswer> smallest_memories;
  std::vector<SweepAnswer> largest_batches;
};

// Returns a size with as many decimals as tell it exactly, up to three: "1.25 GiB".
std::string MemoryText(std::int64_t bytes);

// Returns a table of the points, and a table of the answers to each question.
std::string SweepText(const SweepOptions& sweep, const std::vector<SweepPoint>& points,
                      const SweepAnswers& answers);

// Returns a header and a line for each point. Cells of points that do not fit are empty.
std::string SweepCsv(const std::vector<SweepPoint>& points);

// Returns {"points": [...]}, and "smallest_memory" and "largest_batch" if they were asked for.
nlohmann::ordered_json SweepJson(const SweepOptions& sweep, const std::vector<SweepPoint>& points,
                                 const SweepAnswers& answers);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OUTPUT_H_
