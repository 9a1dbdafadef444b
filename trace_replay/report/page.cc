// SPDX-License-Identifier: Apache-2.0
// Fills the template of the page.
#include "trace_replay/report/page.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/frames.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/report/columns.h"
#include "trace_replay/report/markup.h"
#include "trace_replay/report/page_sources.h"
#include "trace_replay/side_by_side.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

using nlohmann::ordered_json;

ordered_json Names(const StringTable& names) {
  ordered_json json = ordered_json::array();
  for (std::size_t i = 0; i < names.size(); ++i) json.push_back(std::string(names[i]));
  return json;
}

std::string FormatText(const Trace& trace) {
  std::string format(TraceFormatName(trace.format));
  if (trace.format == trace.original_format) return format;
  return format + " from " + std::string(TraceFormatName(trace.original_format));
}

// Returns for each tag the frame that names its stack.
ordered_json NamingFrames(const Trace& trace) {
  const FrameNames names(trace);
  ordered_json frames = ordered_json::array();
  for (std::size_t i = 0; i < trace.frames.size(); ++i)
    frames.push_back(names.Naming(static_cast<TraceTag>(i + 1)));
  return frames;
}

// Returns the JSON that the script needs to read the columns, and the texts that it shows as they
// are.
ordered_json PageJson(const ReportFigures& figures, const std::string& name,
                      const EventTimes& times) {
  const Trace& trace = *figures.measured.trace;
  ordered_json json = FiguresJson(figures);
  json["name"] = name;
  // The charts need a scale also where the peak is not known.
  json["trace"]["peak_live_bytes"] = figures.measured.load.peak_live_bytes;
  json["format"] = FormatText(trace);
  for (std::size_t i = 0; i < figures.layouts.size(); ++i) {
    json["policies"][i]["layout_bytes"] = figures.layouts[i].pool_bytes;
    json["policies"][i]["is_upper_bound"] =
        IsUpperBound(figures.layouts[i], figures.measured.demand);
  }
  json["table"] = ordered_json::array();
  std::vector<PolicySize> sizes;
  for (const Layout& layout : figures.layouts) sizes.push_back(layout.size);
  sizes.insert(sizes.end(), figures.models.begin(), figures.models.end());
  json["table"] = PolicyRows(sizes, figures.measured.load);
  json["needs_bytes"] = figures.measured.demand.needs_bytes;
  json["refused_bytes"] = ordered_json::array();
  for (const RefusedRequest& refused : figures.measured.demand.refused)
    json["refused_bytes"].push_back(refused.bytes);
  json["earlier_allocations"] = trace.has_history ? trace.earlier_allocations : 0;
  json["naming_frames"] = NamingFrames(trace);
  json["times"] = {{"unit", times.unit},
                   {"nanoseconds", trace.original_format != TraceFormat::kLifetimeCsv &&
                                       trace.format != TraceFormat::kLifetimeCsv}};
  json["streams"] = Names(trace.stream_names);
  json["threads"] = Names(trace.thread_names);
  json["marks"] = Names(trace.mark_names);
  json["ended_early"] = trace.ended_early;
  return json;
}

// Returns the texts of the data elements, deflated, in base64: the trace, then the offsets of each
// layout.
absl::StatusOr<std::vector<std::string>> Data(const ReportFigures& figures,
                                              const EventTimes& times) {
  std::vector<absl::StatusOr<std::string>> parts(1 + figures.layouts.size(), std::string());
  SideBySide(parts.size(), [&](std::size_t i) {
    parts[i] =
        Deflated(i == 0 ? TraceColumns(*figures.measured.trace, times)
                        : OffsetColumn(figures.layouts[i - 1].offsets, figures.measured.alignment));
    if (parts[i].ok()) parts[i] = absl::Base64Escape(*parts[i]);
  });
  std::vector<std::string> data;
  for (absl::StatusOr<std::string>& part : parts) {
    if (!part.ok()) return part.status();
    data.push_back(*std::move(part));
  }
  return data;
}

void WriteData(const std::string& id, const std::string& base64, std::ostream& out) {
  out << "<script type=\"application/octet-stream\" id=\"" << id << "\">" << base64
      << "</script>\n";
}

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

absl::Status WritePage(const ReportFigures& figures, const std::string& name,
                       const std::string& comparison, std::ostream& out) {
  const EventTimes times = MeasureTimes(*figures.measured.trace);
  const absl::StatusOr<std::vector<std::string>> data = Data(figures, times);
  if (!data.ok()) return data.status();
  // Inserted text is not searched for placeholders: a trace may be named {{script}}.
  std::string_view rest = kPageTemplate;
  for (;;) {
    const std::size_t begin = rest.find("{{");
    out << rest.substr(0, begin);
    if (begin == std::string_view::npos) return absl::OkStatus();
    const std::size_t end = rest.find("}}", begin);
    const std::string_view place = rest.substr(begin + 2, end - begin - 2);
    rest.remove_prefix(end + 2);
    if (place == "title") {
      out << MarkupText(name);
    } else if (place == "headline") {
      out << MarkupText(Headline(figures).front());
    } else if (place == "more") {
      const std::vector<std::string> sentences = Headline(figures);
      out << MarkupText(absl::StrJoin(sentences.begin() + 1, sentences.end(), " "));
    } else if (place == "comparison") {
      out << comparison;
    } else if (place == "style_hash") {
      out << kPageStyleHash;
    } else if (place == "script_hash") {
      out << kPageScriptHash;
    } else if (place == "style") {
      out << kPageStyle;
    } else if (place == "script") {
      out << kPageScript;
    } else if (place == "facts") {
      out << ScriptJson(PageJson(figures, name, times));
    } else if (place == "data") {
      WriteData("data-trace", (*data)[0], out);
      for (std::size_t i = 1; i < data->size(); ++i) {
        WriteData(absl::StrCat("data-layout-", i - 1), (*data)[i], out);
      }
    }
  }
}

}  // namespace tidepool::tool
