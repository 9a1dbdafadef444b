// A file that appears whole or not at all: written beside its place under another name, and moved
// there when complete. What is no regular file (/dev/stdout, a pipe) is written in place.
#ifndef TIDEPOOL_LIB_TRACE_OUTPUT_FILE_H_
#define TIDEPOOL_LIB_TRACE_OUTPUT_FILE_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace tidepool::internal {

// Calls `write` with a stream to the file at `path`, compressed by gzip when the path ends in
// ".gz". On any error what was at `path` before is still there, and nothing else is left.
absl::Status WriteFile(const std::string& path,
                       const std::function<absl::Status(std::ostream&)>& write);

}  // namespace tidepool::internal

#endif  // TIDEPOOL_LIB_TRACE_OUTPUT_FILE_H_
