// SPDX-License-Identifier: Apache-2.0
// The sources of the page, which the build embeds (embed.cmake).
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_

#include <string_view>

namespace tidepool::tool {

extern const std::string_view kPageTemplate;  // placeholders are {{name}}
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;
// 'sha256-...', the hashes by which a content security policy allows a script or style.
extern const std::string_view kPageStyleHash;
extern const std::string_view kPageScriptHash;

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_PAGE_SOURCES_H_
