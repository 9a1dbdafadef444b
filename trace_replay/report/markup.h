// Text from a trace, as it may stand in a page, a drawing or a script.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tidepool::tool {

// JSON that may stand in an HTML script element: it is ASCII and holds no '<', '>' or '&'. What is
// no UTF-8 is replaced.
std::string ScriptJson(const nlohmann::ordered_json& json);

// Text that may stand in an HTML or XML element and in quotes in an attribute, in ASCII. What
// would be invisible, move a cursor or turn the writing around is shown as in C ("\x1b",
// "\u202e"), what is no UTF-8 replaced.
std::string MarkupText(std::string_view text);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_MARKUP_H_
