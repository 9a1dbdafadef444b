// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all: written under a temporary name in the same folder and
// renamed when complete. Other than regular files (/dev/stdout, a pipe) are written in place.
#ifndef TIDEPOOL_TRACE_OUTPUT_FILE_H_
#define TIDEPOOL_TRACE_OUTPUT_FILE_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "tidepool/export.h"

namespace tidepool {

// Calls `write` with a stream to the file at `path`, compressed by gzip when the path ends in
// ".gz". On any error, an older file at `path` is unchanged and no temporary file is left. Errors
// read "PATH: error". Thread-safe for different paths.
TIDEPOOL_EXPORT absl::Status WriteFile(const std::string& path,
                                       const std::function<absl::Status(std::ostream&)>& write);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_OUTPUT_FILE_H_
