// SPDX-License-Identifier: Apache-2.0
// The report as an HTML page in one file, which loads nothing.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "trace_replay/commands/trace_diff.h"
#include "trace_replay/report/figures.h"

namespace tidepool::tool {

// Returns an HTML section with the largest changes by line, category and size. `before` is the name
// of the other trace.
std::string ComparisonMarkup(const TraceDiff& diff, const std::string& before);

// Writes the page of `figures`. Every layout must have offsets. `name` is the trace's, and
// `comparison` is empty or the section of ComparisonMarkup.
absl::Status WritePage(const ReportFigures& figures, const std::string& name,
                       const std::string& comparison, std::ostream& out);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_
