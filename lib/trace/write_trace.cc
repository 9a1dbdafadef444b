#include "absl/strings/str_cat.h"
#include "lib/trace/format.h"
#include "lib/trace/output_file.h"
#include "lib/trace/quote.h"
#include "tidepool/trace.h"

namespace tidepool {

absl::Status WriteTrace(const Trace& trace, TraceFormat format, const std::string& path) {
  if (trace.allocations.empty() && format != TraceFormat::kOperationCsv) {
    return absl::InvalidArgumentError(
        absl::StrCat(internal::Escaped(path),
                     ":0: no allocations, expected at least one in a trace of this format"));
  }
  for (const internal::CsvFormat& known : internal::CsvFormats()) {
    if (known.format != format) continue;
    return internal::WriteFile(path, [&](std::ostream& out) { return known.write(trace, out); });
  }
  return absl::InvalidArgumentError("no such trace format");
}

}  // namespace tidepool
