// Files that appear whole or not at all: written beside their place under another name, and moved
// there when complete. What is no regular file (/dev/stdout, a pipe) is written in place.
#ifndef TIDEPOOL_TRACE_OUTPUT_FILE_H_
#define TIDEPOOL_TRACE_OUTPUT_FILE_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "tidepool/export.h"

namespace tidepool {

// Calls `write` with a stream to the file at `path`, compressed by gzip when the path ends in
// ".gz". On any error what was at `path` before is still there, and nothing else is left. Errors
// are "PATH:0: what is wrong, what was expected". Thread-safe for different paths.
TIDEPOOL_EXPORT absl::Status WriteFile(const std::string& path,
                                       const std::function<absl::Status(std::ostream&)>& write);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_OUTPUT_FILE_H_
