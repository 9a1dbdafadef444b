// SPDX-License-Identifier: Apache-2.0
// Makes text from a trace safe in a page, a drawing or a script.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tidepool::tool {

// Returns JSON for an HTML script element: ASCII without '<', '>' and '&'. Bytes that are not UTF-8
// are replaced.
std::string ScriptJson(const nlohmann::ordered_json& json);

// Returns ASCII text for an HTML or XML element, or for an attribute in quotes. Characters that are
// invisible, move a cursor or reverse the direction of writing are escaped as in C ("\x1b",
// "\u202e"). Bytes that are not UTF-8 are replaced.
std::string MarkupText(std::string_view text);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_
