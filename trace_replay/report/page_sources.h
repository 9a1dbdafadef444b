// The sources of the page, embedded when the tool is built (embed.cmake).
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_

#include <string_view>

namespace tidepool::tool {

extern const std::string_view kPageTemplate;  // places to fill are {{name}}
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;
// 'sha256-...', as a content security policy names what may run.
extern const std::string_view kPageStyleHash;
extern const std::string_view kPageScriptHash;

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_
