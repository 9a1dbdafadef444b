// SPDX-License-Identifier: Apache-2.0
// The figures of a report: live, reserved and needed bytes, and the offset of every allocation
// under each policy. Pages and drawings only show these figures, so they cannot disagree.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/policy_sizes.h"

namespace tidepool::tool {

// The offsets of the allocations of a trace in a pool that serves it.
struct Layout {
  PolicySize size;
  std::int64_t pool_bytes = 0;        // the smallest pool that is known to serve the trace
  std::vector<std::int64_t> offsets;  // one an allocation; empty if not requested
};

struct ReportFigures {
  MeasuredTrace measured;
  std::vector<Layout> layouts;                // one a placement policy, in the requested order
  std::vector<PolicySize> models;             // of PyTorch's allocator, which has no layouts
  std::optional<std::int64_t> budget_bytes;   // of `--pool`
  std::optional<std::int64_t> reserved_peak;  // of the recorded allocator, if it was recorded
};

struct FiguresRequest {
  // Empty: all policies that can serve the trace, and PyTorch's allocator if the trace is its own.
  std::vector<std::string> policies;
  std::optional<std::int64_t> budget_bytes;
  std::size_t layouts_with_offsets = SIZE_MAX;  // of the first layouts
  std::stop_token stop = {};                    // ends the computation with Cancelled
};

// Computes the policies on all processors side by side. The plan is the best that a search of one
// second finds. Beyond 200,000 events the other searches are bounded too, so that all policies and
// a million events take seconds; some sizes are then marked as upper bounds.
absl::StatusOr<ReportFigures> ComputeFigures(MeasuredTrace measured, const FiguresRequest& request);

// Returns whether a smaller pool may serve the trace under the same policy.
bool IsUpperBound(const Layout& layout, const TraceDemand& demand);
// Returns the layout with the smallest pool, the first among equals. There must be a layout.
const Layout& Best(const ReportFigures& figures);

// Returns the figures in words: a sentence about the pool to choose, one about the budget, and one
// about the recorded allocator, as far as they are known.
std::vector<std::string> Headline(const ReportFigures& figures);

// Returns all fields of size --json, and those of docs/report.md.
nlohmann::ordered_json FiguresJson(const ReportFigures& figures);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_
