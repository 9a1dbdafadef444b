// SPDX-License-Identifier: Apache-2.0
// Sweeps: iterations over several memories, policies, sets and batches, and the questions that they
// answer.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/sweep_values.h"

namespace tidepool::tool {

struct SweepOptions {
  SweepValues<std::int64_t> memories;
  SweepValues<std::string> policies = {{"vdnn++"}};
  SweepValues<std::string> sets = {{"conv"}};
  SweepValues<std::int64_t> batches = {};  // empty: the graph is a file
  bool csv = false;
  std::string drawing;  // a file; empty: none is written
  bool smallest_memory = false;
  bool largest_batch = false;
  double most_slowdown = std::numeric_limits<double>::infinity();  // of an answer

  bool asks() const { return smallest_memory || largest_batch; }
  bool is_sweep() const {
    return memories.is_sweep || policies.is_sweep || sets.is_sweep || batches.is_sweep || csv ||
           !drawing.empty() || asks();
  }
};

// The points of one curve differ in memory alone.
struct SweepSeries {
  std::int64_t batch = 0;
  std::string policy;
  std::string set;

  friend bool operator==(const SweepSeries&, const SweepSeries&) = default;
};
// Returns "vdnn++ dynamic, batch 8"; without the set for the policy `none`.
std::string SeriesText(const SweepSeries& series);

struct SweepPoint {
  SweepSeries series;
  std::string graph;
  std::int64_t memory_bytes = 0;
  double ideal_seconds = 0;
  bool fits = false;
  // The iteration, if it fits:
  std::string schedule = {};
  double seconds = 0;
  double compute_seconds = 0;
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t peak_device_bytes = 0;
  std::int64_t peak_host_bytes = 0;
  std::int64_t pool_bytes = 0;
  // The object of `simulate --json` for this point; null unless JSON is asked for.
  nlohmann::ordered_json json = {};

  double slowdown() const { return ideal_seconds > 0 ? seconds / ideal_seconds : 1; }
};

// Simulates every point: by batch, then by policy, set and memory. `point` has the options that
// all points share, and `graph_of` returns the graph of a batch.
absl::StatusOr<std::vector<SweepPoint>> RunSweep(
    const OffloadCommandOptions& point, const SweepOptions& sweep,
    const std::function<absl::StatusOr<GraphOrFamily>(std::int64_t batch)>& graph_of);

// An answer to a question: the best point of those that differ in the asked value alone.
struct SweepAnswer {
  SweepSeries series;              // for the largest batch: without the batch
  std::int64_t memory_bytes = 0;   // for the largest batch
  std::optional<SweepPoint> best;  // empty if no point is good enough
};
// Return an answer for each series, or for each memory, policy and set. A point is good enough if
// it fits, and if its slowdown is at most `most_slowdown`.
std::vector<SweepAnswer> SmallestMemories(const std::vector<SweepPoint>& points,
                                          double most_slowdown);
std::vector<SweepAnswer> LargestBatches(const std::vector<SweepPoint>& points,
                                        double most_slowdown);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_H_
