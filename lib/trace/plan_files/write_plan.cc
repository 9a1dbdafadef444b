// SPDX-License-Identifier: Apache-2.0
// Writes plan files.
#include "absl/strings/str_cat.h"
#include "lib/trace/csv/csv_traces.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {

absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                       const std::string& path) {
  if (offsets.size() != trace.allocations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(offsets.size(),
                                                   " offsets, expected one for each of ",
                                                   trace.allocations.size(), " allocations"));
  }
  return WriteFile(path,
                   [&](std::ostream& out) { return csv::WriteLifetimes(trace, &offsets, out); });
}

}  // namespace tidepool
