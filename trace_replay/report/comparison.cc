// SPDX-License-Identifier: Apache-2.0
// Writes the rows of `tidepool diff` as tables.
#include "trace_replay/report/comparison.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trace_replay/report/markup.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

void AppendRow(const std::vector<std::string>& cells, const char* kind, std::string& html) {
  absl::StrAppend(&html, "<tr>");
  for (const std::string& cell : cells) {
    absl::StrAppend(&html, "<", kind, ">", MarkupText(cell), "</", kind, ">");
  }
  absl::StrAppend(&html, "</tr>\n");
}

std::string TableMarkup(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table class=\"changes\"><thead>";
  AppendRow(rows.front(), "th", html);
  absl::StrAppend(&html, "</thead><tbody>\n");
  for (std::size_t i = 1; i < rows.size(); ++i) AppendRow(rows[i], "td", html);
  return absl::StrCat(html, "</tbody></table></div>\n");
}

}  // namespace

std::string ComparisonMarkup(const TraceDiff& diff, const std::string& before) {
  const auto& [first, second] = diff.answers;
  return absl::StrCat(
      "<section id=\"comparison\" aria-labelledby=\"comparison-heading\">\n",
      "<h2 id=\"comparison-heading\">Compared with ", MarkupText(before), "</h2>\n",
      "<p class=\"note\">", SizeText(first.live_bytes), " were live there, ",
      SizeText(second.live_bytes), " are live here. It needs ", SizeText(first.demand.needs_bytes),
      " there, ", SizeText(second.demand.needs_bytes), " here.</p>\n", TableMarkup(FrameRows(diff)),
      TableMarkup(CategoryRows(diff)), TableMarkup(SizeRows(diff)), "</section>\n  ");
}

}  // namespace tidepool::tool
