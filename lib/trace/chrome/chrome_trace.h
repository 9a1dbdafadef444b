// SPDX-License-Identifier: Apache-2.0
// Chrome traces: the JSON of PyTorch's profiler.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_CHROME_TRACE_H_
#define TIDEPOOL_LIB_TRACE_CHROME_CHROME_TRACE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "tidepool/trace/trace.h"

namespace tidepool::chrome {

// Whether JSON begins like this.
bool IsChromeTrace(std::string_view beginning);
// Reads a trace from `source`. Errors begin with "NAME:LINE: ".
absl::StatusOr<Trace> ReadChromeTrace(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& options);
absl::Status WriteChromeTrace(const Trace& trace, std::ostream& out);

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_CHROME_TRACE_H_
