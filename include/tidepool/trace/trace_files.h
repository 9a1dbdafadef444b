// SPDX-License-Identifier: Apache-2.0
// Trace files: reads and writes traces in every format.
#ifndef TIDEPOOL_TRACE_TRACE_FILES_H_
#define TIDEPOOL_TRACE_TRACE_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Returns the name of a format, as tools print and take it: operation-csv, rmm-csv, lifetime-csv,
// native, pytorch-snapshot, chrome-trace, memory-timeline, heap-profile, rmm-debug-log.
TIDEPOOL_EXPORT std::string_view TraceFormatName(TraceFormat format);
// Returns the format called `name`, or InvalidArgument with the known names.
TIDEPOOL_EXPORT absl::StatusOr<TraceFormat> TraceFormatFromName(std::string_view name);

// Reads a trace from a regular file and recognises the format by its contents. The file may be
// compressed by gzip. Errors are InvalidArgument or NotFound with "FILE:LINE: error", or with
// "FILE: error" about the file as a whole.
// A native trace that was cut off is read up to that point and has `ended_early` set. A device that
// is not in the file is an error; files without devices count as device 0. Cancelled after a stop
// (ReadOptions::stop), which ends the reading within a few MiB of contents.
// Takes O(events) time. Takes at most 64 bytes of memory an event, plus the texts and the books of
// live allocations. For a PyTorch snapshot, it takes memory proportional to the uncompressed file
// as well.
TIDEPOOL_EXPORT absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                                const ReadOptions& options = {});
// Reads a trace from memory, like ReadTrace; `name` stands for the file in errors.
TIDEPOOL_EXPORT absl::StatusOr<Trace> ParseTrace(std::string_view contents, const std::string& name,
                                                 const ReadOptions& options = {});

// Whether the ids of the allocations are addresses, as a PyTorch snapshot needs them. Each
// allocation, rounded up to the trace's alignment, must lie in the trace's reservations and overlap
// no other live allocation. O(events log events).
TIDEPOOL_EXPORT bool HasAddresses(const Trace& trace);

// Returns `trace` as a pool of `pool_bytes` would have served it with allocation i at offsets[i].
// The ids become addresses, and the first event reserves the pool; the old ids and reservations are
// dropped. Returns InvalidArgument unless there is one offset for each allocation, and each
// allocation fits into the pool at its offset. O(events).
TIDEPOOL_EXPORT absl::StatusOr<Trace> AtOffsets(const Trace& trace,
                                                const std::vector<std::int64_t>& offsets,
                                                std::int64_t pool_bytes);

// Writes `trace` to `path`, compressed by gzip when the path ends in ".gz". A regular file appears
// whole or not at all.
// Native traces hold everything except the row order of a lifetime CSV and the segments of a
// snapshot. Other formats leave out data that they cannot hold:
// - all of them: waits;
// - RMM logs: hints and marks;
// - operation CSV: threads and failures;
// - lifetime CSV: everything except ids, sizes and lifetimes. Times are event indices unless the
// trace came from a lifetime CSV;
// - PyTorch snapshots: hints, threads and times below a microsecond;
// - all but native traces and snapshots: settings of the allocator, and which allocations were made
// before the recording.
// Returns InvalidArgument for a PyTorch snapshot of a trace without HasAddresses, and for a format
// that is only read.
TIDEPOOL_EXPORT absl::Status WriteTrace(const Trace& trace, TraceFormat format,
                                        const std::string& path);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_FILES_H_
