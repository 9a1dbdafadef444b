// SPDX-License-Identifier: Apache-2.0
// The difference between the memory of two recordings: by line, by category and by size.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_TRACE_DIFF_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_TRACE_DIFF_H_

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace_replay/commands/device_answer.h"

namespace tidepool::tool {

// Bytes of one part of both recordings.
struct PartChange {
  std::string name;
  std::int64_t before = 0;
  std::int64_t after = 0;

  std::int64_t change() const { return after - before; }
};

// Live allocations of one aligned size.
struct SizeChange {
  std::int64_t bytes = 0;  // of each
  std::int64_t before = 0;
  std::int64_t after = 0;

  std::int64_t change() const { return (after - before) * bytes; }
};

// Both recordings at their refusal that needs the most, or else at their peak. In each list the
// largest change comes first.
struct TraceDiff {
  std::array<DeviceAnswer, 2> answers;
  std::vector<PartChange> by_frame;
  std::vector<PartChange> by_category;
  std::vector<SizeChange> by_size;
};

absl::StatusOr<TraceDiff> Compare(const MeasuredTrace& before, const MeasuredTrace& after,
                                  const std::vector<CategoryRule>& rules);

// The batch sizes of two recordings, and the line through their needs.
struct BatchLine {
  std::array<std::int64_t, 2> batch;
  std::array<std::int64_t, 2> needs_bytes;

  double bytes_per_sample() const;
  // Returns the largest batch that fits into `bytes` on this line; at least 0.
  std::int64_t LargestBatch(std::int64_t bytes) const;
};

// InvalidArgument unless both batches are positive and different and the larger one needs more.
absl::StatusOr<BatchLine> LineOf(const TraceDiff& diff, const std::vector<std::int64_t>& batch);

nlohmann::ordered_json DiffJson(const TraceDiff& diff);
// Return the largest changes of each list as rows of texts, the first of them a heading. The names
// of lines and categories are as in the files: escape them.
std::vector<std::vector<std::string>> FrameRows(const TraceDiff& diff);
std::vector<std::vector<std::string>> CategoryRows(const TraceDiff& diff);
std::vector<std::vector<std::string>> SizeRows(const TraceDiff& diff);
// Returns the lists as tables for a terminal.
std::string DiffText(const TraceDiff& diff);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_TRACE_DIFF_H_
