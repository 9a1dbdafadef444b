// The figures of a report: what is live, reserved and needed, and where each policy puts every
// allocation. Pages and drawings show them and compute nothing of their own that could differ.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/policy_sizes.h"

namespace tidepool::tool {

// Where the allocations of a trace lie in a pool that serves it.
struct Layout {
  PolicySize size;
  std::int64_t pool_bytes = 0;        // the smallest pool that is known to serve the trace
  std::vector<std::int64_t> offsets;  // one an allocation; empty when they were not asked for
};

struct ReportFigures {
  MeasuredTrace measured;
  std::vector<Layout> layouts;                // one a policy, in the order asked for
  std::optional<std::int64_t> budget_bytes;   // what there is
  std::optional<std::int64_t> reserved_peak;  // of the recorded allocator, where the trace says it
};

struct FiguresRequest {
  std::vector<std::string> policies;  // all that there are sizes of when empty
  std::optional<std::int64_t> budget_bytes;
  std::size_t layouts_with_offsets = SIZE_MAX;  // the first so many
};

// The policies share the processors. The plan is the best that is found in a second, and beyond
// 200,000 events the other searches are bounded too, so that all policies and a million events take
// seconds: then some sizes are upper bounds, and say so.
absl::StatusOr<ReportFigures> ComputeFigures(MeasuredTrace measured, const FiguresRequest& request);

// Whether a smaller pool might serve the trace under the same policy, for all that is known.
bool IsUpperBound(const Layout& layout, const TraceLoad& load);
// The layout with the smallest pool, the first among equals. There is at least one.
const Layout& Best(const ReportFigures& figures);

// What the figures mean for who has to choose a pool: one sentence, and others about the budget and
// the recorded allocator where there are such.
std::vector<std::string> Headline(const ReportFigures& figures);

// Everything of size --json, and more of the same kind.
nlohmann::ordered_json FiguresJson(const ReportFigures& figures);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_FIGURES_H_
