// SPDX-License-Identifier: Apache-2.0
// Files that a command does not take, and the command that takes them.
#ifndef TIDEPOOL_TRACE_REPLAY_WRONG_FILE_H_
#define TIDEPOOL_TRACE_REPLAY_WRONG_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace tidepool::tool {

// Returns the error of a file that was read as a trace, a task graph, a schedule or a chain. If the
// file is one of the others, or a text of PyTorch's OutOfMemoryError, the error names that and the
// command for it. Otherwise `error` itself.
absl::Status NoTrace(const std::string& path, const absl::Status& error);
absl::Status NoGraph(const std::string& path, const absl::Status& error);
absl::Status NoSchedule(const std::string& path, const absl::Status& error);
absl::Status NoChain(const std::string& path, const absl::Status& error);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_WRONG_FILE_H_
