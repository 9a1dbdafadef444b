// A log is a trace without names.
#include "lib/pool/iteration_log.h"

#include <utility>

namespace tidepool::pool {

Trace IterationLog::Take() {
  for (std::size_t i = 0; i < streams_; ++i) trace_.stream_names.Add("");
  Trace taken = std::move(trace_);
  taken.original_format = TraceFormat::kNative;  // which tells of waits
  first_ += taken.allocations.size();
  trace_ = {};
  signature_ = 0;
  streams_ = 1;
  return taken;
}

}  // namespace tidepool::pool
