// SPDX-License-Identifier: Apache-2.0
// CSV traces: recognises each format by its header, reads it and writes it.
#ifndef TIDEPOOL_LIB_TRACE_CSV_CSV_TRACES_H_
#define TIDEPOOL_LIB_TRACE_CSV_CSV_TRACES_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/io/csv.h"
#include "tidepool/trace/trace.h"

namespace tidepool::csv {

// Readers are called after the header was read. Errors begin with file and line.

bool IsOperationCsv(const io::CsvReader& reader);
absl::StatusOr<Trace> ReadOperationCsv(io::CsvReader& reader);
absl::Status WriteOperationCsv(const Trace& trace, std::ostream& out);

bool IsRmmCsv(const io::CsvReader& reader);
absl::StatusOr<Trace> ReadRmmCsv(io::CsvReader& reader);
absl::Status WriteRmmCsv(const Trace& trace, std::ostream& out);

bool IsLifetimeCsv(const io::CsvReader& reader);
absl::StatusOr<Trace> ReadLifetimeCsv(io::CsvReader& reader);
absl::Status WriteLifetimeCsv(const Trace& trace, std::ostream& out);
// Writes lifetimes, and a column with one offset for each allocation unless `offsets` is null.
absl::Status WriteLifetimes(const Trace& trace, const std::vector<std::int64_t>* offsets,
                            std::ostream& out);
// Begin and end of each allocation for a lifetime CSV. Times are the trace's own if it came from a
// lifetime CSV, and otherwise indices of events. LifetimesOf returns InvalidArgument if an
// allocation would end before it begins.
struct TraceLifetimes {
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
};
absl::StatusOr<TraceLifetimes> LifetimesOf(const Trace& trace);

}  // namespace tidepool::csv

#endif  // TIDEPOOL_LIB_TRACE_CSV_CSV_TRACES_H_
