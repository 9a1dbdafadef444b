// SPDX-License-Identifier: Apache-2.0
// Native traces: the format that the recorder writes.
#ifndef TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_TRACE_H_
#define TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_TRACE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "tidepool/trace/trace.h"

namespace tidepool::native {

// Whether a native trace begins like this.
bool IsNative(std::string_view beginning);
// Reads a trace from `source`. Errors begin with "NAME:LINE: ".
absl::StatusOr<Trace> ReadNative(io::ByteSource& source, const std::string& name,
                                 const ReadOptions& options);
absl::Status WriteNative(const Trace& trace, std::ostream& out);

}  // namespace tidepool::native

#endif  // TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_TRACE_H_
