// A log is a trace without names.
#include "lib/pool/iteration_log.h"

#include <utility>

namespace tidepool::pool {

Trace IterationLog::Take() {
  for (std::size_t i = 0; i < streams_; ++i) trace_.stream_names.Add("");
  trace_.original_format = TraceFormat::kNative;  // which tells of waits
  return std::move(trace_);
}

}  // namespace tidepool::pool
