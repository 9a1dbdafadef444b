// Trace files: reading and writing traces in every format.
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

// The name of a format, as tools print and take it: operation-csv, rmm-csv, lifetime-csv, native,
// pytorch-snapshot, chrome-trace.
TIDEPOOL_EXPORT std::string_view TraceFormatName(TraceFormat format);
// InvalidArgument, with the known names, when there is no format called `name`.
TIDEPOOL_EXPORT absl::StatusOr<TraceFormat> TraceFormatFromName(std::string_view name);

// Reads a trace from a regular file, compressed by gzip or not, recognised by its contents.
// InvalidArgument or NotFound with "FILE:LINE: what is wrong, what was expected"; line 0 is the
// file itself. A native trace that was cut off is read up to there, and says that it ended early.
// A device that the file does not tell of is an error; files that know of no devices are device 0.
// O(events) time, and memory of at most 64 bytes an event plus what is live and the texts; while a
// PyTorch snapshot is read, also of the order of its uncompressed bytes.
TIDEPOOL_EXPORT absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                                const ReadOptions& options = {});
// The same from memory; `name` stands for the file in errors.
TIDEPOOL_EXPORT absl::StatusOr<Trace> ParseTrace(std::string_view contents, const std::string& name,
                                                 const ReadOptions& options = {});

// Whether the ids of the allocations are addresses at which each lies, rounded up to the trace's
// alignment, in what the trace's reservations hold, and none in another: what a PyTorch snapshot
// must have. O(events log events).
TIDEPOOL_EXPORT bool HasAddresses(const Trace& trace);

// `trace` as a pool of `pool_bytes` would have served it that laid allocation i at offsets[i]: the
// ids are addresses, and the first event reserves the pool. Its own ids and reservations are left
// out. InvalidArgument unless there is one offset an allocation, from which on it fits into the
// pool. O(events).
TIDEPOOL_EXPORT absl::StatusOr<Trace> AtOffsets(const Trace& trace,
                                                const std::vector<std::int64_t>& offsets,
                                                std::int64_t pool_bytes);

// Writes `trace` to `path`, compressed by gzip when the path ends in ".gz". A regular file appears
// whole or not at all. Native traces hold all but the order of a lifetime CSV's rows, which only
// lifetime CSV holds; what another format cannot hold is left out: waits by all of them, hints and
// marks by RMM logs, threads and failures by operation CSV, all but ids, sizes and lifetimes by
// lifetime CSV, whose times are event indices unless the trace came from one, and hints, threads
// and times below a microsecond by PyTorch snapshots, which are InvalidArgument for a trace without
// HasAddresses.
TIDEPOOL_EXPORT absl::Status WriteTrace(const Trace& trace, TraceFormat format,
                                        const std::string& path);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_FILES_H_
