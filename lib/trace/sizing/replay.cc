// SPDX-License-Identifier: Apache-2.0
// Serves a trace from one arena of a given size.
#include "lib/trace/sizing/replay.h"

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/blocks/arena.h"

namespace tidepool {
namespace {

using blocks::Arena;

constexpr std::size_t kEventsPerLook = 4096;  // an event takes 0.1 us and more

absl::Status CheckPool(const TraceLoad& load, const ReplayOptions& options) {
  const std::int64_t most = blocks::MaxArenaBytes(options.alignment);
  if (options.pool_bytes < 0 || options.pool_bytes > most) {
    return absl::InvalidArgumentError(absl::StrCat("a pool of ",
                                                   text::ExactSize(options.pool_bytes),
                                                   ", expected 0 to ", text::ExactSize(most)));
  }
  // Used blocks, the free ones between them, and the two that bound the list.
  const blocks::Geometry geometry(options.pool_bytes & -options.alignment, options.alignment);
  if (2 * load.peak_live_count + 4 > geometry.max_blocks()) {
    return absl::InvalidArgumentError(
        absl::StrCat(load.peak_live_count, " allocations live at a time, expected at most ",
                     geometry.max_blocks() / 2 - 2, " in a pool of ",
                     text::ExactSize(options.pool_bytes), " at alignment ", options.alignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayResult> Replay(const Trace& trace, PlacementPolicy& policy,
                                    const ReplayOptions& options) {
  const absl::StatusOr<TraceLoad> load = MeasureLoad(trace, options.alignment);
  if (!load.ok()) return load.status();
  return sizing::ReplayWithLoad(trace, *load, policy, options);
}

absl::Status sizing::CheckNotStopped(const std::stop_token& stop) {
  return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::StatusOr<ReplayResult> sizing::ReplayWithLoad(const Trace& trace, const TraceLoad& load,
                                                    PlacementPolicy& policy,
                                                    const ReplayOptions& options) {
  if (absl::Status status = CheckPool(load, options); !status.ok()) return status;

  blocks::Arena arena(options.pool_bytes, options.alignment, policy);
  std::vector<BlockId> placed(trace.allocations.size(), kNoBlock);
  ReplayResult result;
  if (options.keep_offsets) result.offsets.assign(trace.allocations.size(), blocks::kNoOffset);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (i % kEventsPerLook == 0) {
      if (absl::Status status = CheckNotStopped(options.stop); !status.ok()) return status;
    }
    if (event.kind == TraceEvent::Kind::kMark) {
      arena.Mark(trace.mark_names[event.index]);
    } else if (event.kind == TraceEvent::Kind::kFree) {
      if (placed[event.index] != kNoBlock) arena.FreeBlock(placed[event.index]);
    } else if (event.kind == TraceEvent::Kind::kAllocate) {
      const TraceAllocation& allocation = trace.allocations[event.index];
      const BlockId block = arena.AllocateBlock(allocation.bytes, allocation.hint);
      placed[event.index] = block;
      if (block != kNoBlock) {
        if (options.keep_offsets) result.offsets[event.index] = arena.blocks().offset(block);
        continue;
      }
      if (++result.refused == 1) {
        const BlockId largest = arena.blocks().Largest();
        result.first_refused_event = static_cast<std::int64_t>(i);
        result.first_refused_bytes = arena.Rounded(allocation.bytes);
        result.largest_free_bytes = largest == kNoBlock ? 0 : arena.blocks().bytes(largest);
      }
      if (options.stop_at_refusal) break;
    }
  }
  result.high_water_bytes = arena.high_water();
  result.peak_live_bytes = arena.peak_live_bytes();
  return result;
}

}  // namespace tidepool
