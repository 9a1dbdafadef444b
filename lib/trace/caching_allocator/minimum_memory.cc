// SPDX-License-Identifier: Apache-2.0
// Minimum memory: simulates all memories of the device at once. Runs are equal for all memories
// for which every answer of the limit is equal. Where an answer differs, the run divides, and the
// run of the smaller memories goes first.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/budget/budget.h"
#include "lib/trace/caching_allocator/check_options.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "lib/trace/caching_allocator/trace_run.h"
#include "lib/trace/sizing/exact_pool.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

using caching_allocator::TraceRun;

// A run that is equal for all memories from that of its allocator to just below `end`.
struct Piece {
  TraceRun run;
  std::int64_t end;
};

class Search {
 public:
  Search(const Trace& trace, const CachingAllocatorSettings& settings,
         const MinimumPoolOptions& limits)
      : limits_(limits), budget_(limits.time_limit_seconds, limits.stop) {
    const std::int64_t least = caching_allocator::PeakRoundedBytes(trace, settings);
    if (least <= kMostCachingMemory) {
      pieces_.push_back({TraceRun(trace, settings, least), kMostCachingMemory + 1});
    }
  }

  // Sets the exact answers of `result`.
  void Run(MinimumPoolResult& result) {
    bool some_fail = false;
    while (!pieces_.empty() && !(result.exact_pool_bytes.has_value() && some_fail)) {
      Piece piece = std::move(pieces_.back());
      pieces_.pop_back();
      const std::optional<bool> is_served = Serve(piece);
      if (!is_served.has_value()) break;
      const std::int64_t memory = piece.run.allocator().limit().memory_bytes();
      if (*is_served && !result.exact_pool_bytes.has_value()) {
        result.exact_pool_bytes = memory;
      } else if (!*is_served && result.exact_pool_bytes.has_value()) {
        some_fail = true;
      }
    }
    if (result.exact_pool_bytes.has_value() && (some_fail || limit_ == ExactLimit::kNone)) {
      result.serves_all_larger = !some_fail;
    } else {
      result.exact_limit = limit_;
    }
    result.exact_pieces = most_pieces_;
    result.most_exact_pieces = allowed_pieces_;
  }

 private:
  // Serves the rest of the trace for the smallest memories of a piece, and keeps the larger ones
  // for later. Returns whether all requests were served, or no value at a limit of the search.
  std::optional<bool> Serve(Piece& piece) {
    while (!piece.run.IsAtEnd()) {
      if (!TakeStep()) return std::nullopt;
      if (!piece.run.MayDependOnMemory()) {
        piece.run.Step();  // a free block fits, or there is memory for all
        continue;
      }
      Piece larger = piece;
      const bool is_served = piece.run.Step();
      const std::int64_t next = piece.run.allocator().limit().next();
      if (next < piece.end) {
        piece.end = next;
        larger.run.SetMemory(next);
        Keep(std::move(larger));
      }
      if (!is_served) return false;
    }
    return true;
  }

  bool TakeStep() {
    if (++steps_ > limits_.most_steps) {
      Reach(ExactLimit::kSteps);
    } else if (steps_ % kStepsPerLook == 0 && budget_.HasEnded()) {
      Reach(ExactLimit::kTime);
    } else {
      return true;
    }
    return false;
  }

  // Keeps a piece; drops the one of the largest memories if too many are kept.
  void Keep(Piece piece) {
    const auto blocks = static_cast<std::int64_t>(piece.run.allocator().heap().size());
    allowed_pieces_ =
        std::max<std::int64_t>(1, sizing::kMostPlaces / std::max<std::int64_t>(1, blocks));
    pieces_.push_back(std::move(piece));
    most_pieces_ = std::max(most_pieces_, static_cast<std::int64_t>(pieces_.size()));
    if (static_cast<std::int64_t>(pieces_.size()) <= allowed_pieces_) return;
    pieces_.erase(pieces_.begin());
    Reach(ExactLimit::kPieces);
  }

  void Reach(ExactLimit limit) {
    if (limit_ == ExactLimit::kNone) limit_ = limit;
  }

  static constexpr std::int64_t kStepsPerLook = 256;

  const MinimumPoolOptions& limits_;
  budget::Budget budget_;
  std::vector<Piece> pieces_;  // the smallest memories last
  std::int64_t steps_ = 0;
  std::int64_t most_pieces_ = 0;
  std::int64_t allowed_pieces_ = 0;
  ExactLimit limit_ = ExactLimit::kNone;
};

}  // namespace

absl::StatusOr<MinimumPoolResult> MinimumCachingMemory(const Trace& trace,
                                                       const CachingAllocatorSettings& settings,
                                                       const MinimumPoolOptions& limits) {
  const absl::StatusOr<CachingReplayResult> replay = ReplayCaching(trace, {.settings = settings});
  if (!replay.ok()) return replay.status();
  MinimumPoolResult result;
  result.pool_bytes = replay->peak_reserved_bytes;
  result.attempts = 1;
  Search(trace, settings, limits).Run(result);
  if (limits.stop.stop_requested()) return absl::CancelledError("interrupted");
  return result;
}

}  // namespace tidepool
