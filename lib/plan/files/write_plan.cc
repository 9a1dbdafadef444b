// Plans as files.
#include "absl/strings/str_cat.h"
#include "lib/trace/format.h"
#include "tidepool/output_file.h"
#include "tidepool/plan.h"

namespace tidepool {

absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                       const std::string& path) {
  if (offsets.size() != trace.allocations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(offsets.size(),
                                                   " offsets, expected one for each of ",
                                                   trace.allocations.size(), " allocations"));
  }
  return WriteFile(
      path, [&](std::ostream& out) { return internal::WriteLifetimes(trace, &offsets, out); });
}

}  // namespace tidepool
