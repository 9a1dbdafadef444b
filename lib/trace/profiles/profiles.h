// SPDX-License-Identifier: Apache-2.0
// Files that other programs write about memory, and that tidepool only reads: PyTorch's memory
// timelines, heap profiles of pprof, RMM's debug log. docs/formats has a page for each.
#ifndef TIDEPOOL_LIB_TRACE_PROFILES_PROFILES_H_
#define TIDEPOOL_LIB_TRACE_PROFILES_PROFILES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "tidepool/trace/trace.h"

namespace tidepool::profiles {

// Each function recognises a file by its first 8 bytes.
bool IsMemoryTimeline(std::string_view beginning);
bool IsHeapProfile(std::string_view beginning);
bool IsRmmDebugLog(std::string_view beginning);

// Each function reads a whole file. Errors begin with "NAME: " or "NAME:LINE: ". O(bytes).
absl::StatusOr<Trace> ReadMemoryTimeline(io::ByteSource& source, const std::string& name,
                                         const ReadOptions& options);
absl::StatusOr<Trace> ReadHeapProfile(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& options);
absl::StatusOr<Trace> ReadRmmDebugLog(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& options);

}  // namespace tidepool::profiles

#endif  // TIDEPOOL_LIB_TRACE_PROFILES_PROFILES_H_
