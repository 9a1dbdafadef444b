#include "lib/trace/format.h"
#include "lib/trace/output_file.h"
#include "tidepool/trace.h"

namespace tidepool {

absl::Status WriteTrace(const Trace& trace, TraceFormat format, const std::string& path) {
  for (const internal::CsvFormat& known : internal::CsvFormats()) {
    if (known.format != format) continue;
    return internal::WriteFile(path, [&](std::ostream& out) { return known.write(trace, out); });
  }
  return absl::InvalidArgumentError("no such trace format");
}

}  // namespace tidepool
