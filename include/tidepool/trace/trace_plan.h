// Plans of traces, and plans as files.
#ifndef TIDEPOOL_TRACE_TRACE_PLAN_H_
#define TIDEPOOL_TRACE_TRACE_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// The buffers of a trace, in the order of its allocations: sizes rounded up to `alignment`, a power
// of two up to 1 GiB, and offsets aligned to it. Times are the indices of events, or a lifetime
// CSV's own; what is never freed stays to the end. A buffer that was freed on one of several
// streams lives on until every other stream that allocates later has waited for that free
// (TraceEvent::kWait, directly or through others), so that no stream takes over memory that another
// may still be using. Formats that do not tell of waits tell of frees that all streams know of: a
// PyTorch snapshot of those that completed, and other logs of those that they have.
// InvalidArgument for an alignment that is none, ResourceExhausted for more than 1,024 streams.
// O(events streams).
TIDEPOOL_EXPORT absl::StatusOr<PlanProblem> ToPlanProblem(const Trace& trace,
                                                          std::int64_t alignment);

// Writes a plan as CSV, `id,lower,upper,size,offset`, one row an allocation of `trace` in its
// order: sizes as asked for, and as times the indices of events, or a lifetime CSV's own.
// Compressed when the path ends in ".gz". InvalidArgument when there is not one offset for each
// allocation; other errors are WriteFile's.
TIDEPOOL_EXPORT absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                                       const std::string& path);

// A plan as a file tells it: its rows in the order in which their buffers are asked for (by
// `lower`, and those of the same `lower` in the order of the file).
struct PlanFile {
  std::string name;                   // of the file, as errors show it
  StringTable ids;                    // different for what lives at the same time
  PlanProblem problem;                // sizes as asked for, without alignment
  std::vector<std::int64_t> offsets;  // one a buffer; no buffers overlap
  std::vector<std::int64_t> lines;    // of the file
  std::int64_t height = 0;            // the highest end of any buffer
};

// Reads a CSV file, compressed by gzip or not, with the columns id, lower, upper, size and offset.
// NotFound, or InvalidArgument with "FILE:LINE: what is wrong, what was expected": a row that is
// none, an id that is live already, buffers that overlap, sizes that sum up to more than 2^60.
// O(n log n).
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ReadPlan(const std::string& path);
// The same from memory; `name` stands for the file in errors.
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ParsePlan(std::string_view contents,
                                                   const std::string& name);

// The offset of each allocation of `trace` in its order, from a plan of this trace as WritePlan
// writes it, in any order of rows: one row an allocation, with its id, size and times. Offsets are
// multiples of `alignment`, and ValidatePlan accepts them for ToPlanProblem(trace, alignment).
// Otherwise InvalidArgument with the first row that is wrong; and the errors of ToPlanProblem.
// O(n log n + events streams).
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::int64_t>> OffsetsFor(const PlanFile& plan,
                                                                     const Trace& trace,
                                                                     std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_PLAN_H_
