// The rows of a lifetime CSV, `id,lower,upper,size`, and of a plan, which has a column `offset`
// more.
#ifndef TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_
#define TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/io/csv.h"
#include "tidepool/trace/trace.h"

namespace tidepool::csv {

// By column, in the order of `lower`; rows with the same `lower` are in the order of the file.
struct LifetimeRows {
  StringTable ids;
  std::vector<TraceAllocation> allocations;
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  std::vector<std::int64_t> offsets;  // of plans
  std::vector<std::int64_t> lines;
  // Where each row of the file went; empty when they were in order.
  std::vector<std::uint32_t> places;
};

enum class RowKind : std::uint8_t { kLifetime, kPlanned };

// Offsets are in [0, kMaxOffset]: nothing that is added to one overflows.
inline constexpr std::int64_t kMaxOffset = std::int64_t{1} << 60;

// Reads from behind the header. Errors are with the place: rows whose values are none, and an id
// that is live already. O(n log n) at most.
absl::StatusOr<LifetimeRows> ReadLifetimeRows(io::CsvReader& reader, RowKind kind);

}  // namespace tidepool::csv

#endif  // TIDEPOOL_LIB_TRACE_CSV_LIFETIME_ROWS_H_
