// SPDX-License-Identifier: Apache-2.0
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

// Returns the buffers of a trace, in the order of its allocations, with sizes rounded up to
// `alignment`, a power of two up to 1 GiB, and offsets aligned to it. Times are the indices of
// events, or a lifetime CSV's own; a buffer that is never freed stays to the end.
// Streams and waits (TraceEvent::kWait) are those of the trace: memory that a stream freed is free
// for that stream at once, and for another stream once it has waited, directly or through other
// streams. Otherwise a stream could take over memory that another stream still uses. A format
// without waits implies that all streams know its frees, so its buffers are all of stream 0: a
// PyTorch snapshot contains completed frees, and other logs contain all their frees.
// InvalidArgument for an invalid alignment, ResourceExhausted for more than 1,024 streams.
// O(events).
TIDEPOOL_EXPORT absl::StatusOr<PlanProblem> ToPlanProblem(const Trace& trace,
                                                          std::int64_t alignment);

// Writes a plan as CSV, `id,lower,upper,size,offset`, one row per allocation of `trace` in its
// order. Sizes are those requested; times are the indices of events, or a lifetime CSV's own. The
// file is compressed when the path ends in ".gz". InvalidArgument unless there is one offset for
// each allocation; other errors are WriteFile's.
TIDEPOOL_EXPORT absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                                       const std::string& path);

// The contents of a plan file. Rows are in the order of their buffers' requests: by `lower`, and
// for equal `lower` in the order of the file.
struct PlanFile {
  std::string name;                   // the file's name in errors
  StringTable ids;                    // different for buffers that live at the same time
  PlanProblem problem;                // sizes as requested, without alignment
  std::vector<std::int64_t> offsets;  // one per buffer; no buffers overlap
  std::vector<std::int64_t> lines;    // line numbers in the file
  std::int64_t height = 0;            // the highest end of any buffer
};

// Reads a CSV file, compressed by gzip or not, with the columns id, lower, upper, size and offset.
// NotFound, or InvalidArgument with "FILE:LINE: fault, expectation" for an invalid row, an id that
// is already live, buffers that overlap, or sizes with a sum above 2^60. O(n log n).
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ReadPlan(const std::string& path);
// Parses such a file from memory; `name` stands for the file in errors.
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ParsePlan(std::string_view contents,
                                                   const std::string& name);

// Returns the offset of each allocation of `trace` in its order, from a plan of this trace in
// WritePlan's format with rows in any order. Each allocation has one row with its id, size and
// times. Offsets are multiples of `alignment`, and ValidatePlan accepts them for
// ToPlanProblem(trace, alignment). Otherwise InvalidArgument names the first wrong row. Other
// errors are ToPlanProblem's. Complexity is ValidatePlan's.
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::int64_t>> OffsetsFor(const PlanFile& plan,
                                                                     const Trace& trace,
                                                                     std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_PLAN_H_
