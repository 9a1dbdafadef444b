// The report as one HTML page that loads nothing.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "trace_replay/report/figures.h"

namespace tidepool::tool {

// JSON that may stand in an HTML script element: no '<' and no '>' is in it, and nothing beyond
// ASCII. What is no UTF-8 is replaced.
std::string ScriptJson(const nlohmann::ordered_json& json);

// Text that may stand in an HTML element or in quotes in an attribute, and in XML: special
// characters are escaped, control characters shown as in C, what is no UTF-8 replaced.
std::string MarkupText(std::string_view text);

// Writes the page about `figures`, whose layouts all have offsets; `name` is the trace's.
absl::Status WritePage(const ReportFigures& figures, const std::string& name, std::ostream& out);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_H_
