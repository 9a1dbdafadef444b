// SPDX-License-Identifier: Apache-2.0
// The report as an SVG drawing for documents: memory over time, and the map of addresses over time
// under the first policy.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "trace_replay/report/figures.h"

namespace tidepool::tool {

// Writes the drawing of `figures`. The first layout must have offsets. `name` is the trace's. The
// drawing has at most about 600 kB for a trace of any length: boxes smaller than a pixel are
// merged.
absl::Status WriteDrawing(const ReportFigures& figures, const std::string& name, std::ostream& out);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_DRAWING_H_
