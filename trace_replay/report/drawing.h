// The report as one SVG drawing, for documents: memory over time, and the map of addresses by time
// under the first policy.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "trace_replay/report/figures.h"

namespace tidepool::tool {

// Writes the drawing of `figures`, whose first layout has offsets; `name` is the trace's. It is
// less than about 600 kB however long the trace: what is smaller than a pixel is merged.
absl::Status WriteDrawing(const ReportFigures& figures, const std::string& name, std::ostream& out);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_
