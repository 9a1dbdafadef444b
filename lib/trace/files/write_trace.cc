// SPDX-License-Identifier: Apache-2.0
// Writes a trace in any format that can hold a part of it.
#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/files/formats.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {

namespace {

// Whether the trace has a row in `format`: readers of most formats refuse a file without rows.
bool HasRow(const Trace& trace, TraceFormat format) {
  if (format == TraceFormat::kNative || format == TraceFormat::kPyTorchSnapshot) return true;
  if (format == TraceFormat::kChromeTrace && !trace.failures.empty()) return true;
  const bool takes_marks = format == TraceFormat::kOperationCsv;
  return !trace.allocations.empty() || (takes_marks && trace.mark_names.size() > 0);
}

}  // namespace

absl::Status WriteTrace(const Trace& trace, TraceFormat format, const std::string& path) {
  if (!HasRow(trace, format)) {
    return text::AboutFile(path,
                           absl::InvalidArgumentError(
                               "no allocations, expected at least one in a trace of this format"));
  }
  for (const trace_files::Format& known : trace_files::Formats()) {
    if (known.format != format) continue;
    return WriteFile(path, [&](std::ostream& out) { return known.write(trace, out); });
  }
  return absl::InvalidArgumentError("a trace format without a writer");
}

}  // namespace tidepool
