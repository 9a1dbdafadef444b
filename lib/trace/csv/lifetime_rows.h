// SPDX-License-Identifier: Apache-2.0
// Lifetime rows: the rows of a lifetime CSV, `id,lower,upper,size`, or of a plan, which also has a
// column `offset`.
#ifndef TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_
#define TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/io/csv.h"
#include "tidepool/trace/trace.h"

namespace tidepool::csv {

// Columns of a file, sorted by `lower`; rows with equal `lower` keep the order of the file.
struct LifetimeRows {
  StringTable ids;
  std::vector<TraceAllocation> allocations;
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  std::vector<std::int64_t> offsets;  // only for plans
  // Sorted position of each row of the file; empty when the file was sorted.
  std::vector<std::uint32_t> positions;
};

enum class RowKind : std::uint8_t { kLifetime, kPlanned };

// Largest offset: small enough that adding a size to an offset never overflows.
inline constexpr std::int64_t kMaxOffset = std::int64_t{1} << 60;

// Reads all rows after the header. Errors, with file and line: an invalid value, or an id that is
// still live. At most O(n log n).
absl::StatusOr<LifetimeRows> ReadLifetimeRows(io::CsvReader& reader, RowKind kind);

}  // namespace tidepool::csv

#endif  // TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_
