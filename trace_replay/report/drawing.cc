// SPDX-License-Identifier: Apache-2.0
// Lays out the SVG drawing: axes, curves, the map and its legend.
#include "trace_replay/report/drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lib/base/arithmetic.h"
#include "tidepool/trace/composition.h"
#include "trace_replay/report/map_paths.h"
#include "trace_replay/report/markup.h"
#include "trace_replay/report/plot.h"
#include "trace_replay/report/size_classes.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr int kWidth = 960;
constexpr int kLeft = 70;
constexpr int kPlotWidth = 690;
constexpr int kRight = kLeft + kPlotWidth;
constexpr int kCurveHeight = 150;
constexpr int kMapHeight = 270;
constexpr std::size_t kMostHolders = 10;
constexpr int kBarStep = 22;
constexpr int kBarWidth = 480;
constexpr int kHoldersHeight = static_cast<int>(kMostHolders) * kBarStep + 16;

// Breaks `text` at spaces into lines of at most about `longest` characters.
std::vector<std::string> Lines(const std::string& text, std::size_t longest) {
  std::vector<std::string> lines = {""};
  for (const auto word : absl::StrSplit(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + word.size() >= longest) {
      lines.emplace_back();
    }
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

class Drawing {
 public:
  Drawing(const ReportFigures& figures, std::string name, std::ostream& out)
      : figures_(figures),
        trace_(*figures.measured.trace),
        layout_(figures.layouts.front()),
        name_(std::move(name)),
        out_(out) {}

  void Write() {
    const std::vector<std::string> lines = Lines(absl::StrJoin(Headline(figures_), " "), 140);
    int y = 26 + 18 * static_cast<int>(lines.size());
    curve_top_ = y + (HasMarks() ? 30 : 16);
    map_top_ = curve_top_ + kCurveHeight + 40;
    const int height =
        trace_.has_history ? map_top_ + kMapHeight + 34 : curve_top_ + kHoldersHeight;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\""
         << height << "\" viewBox=\"0 0 " << kWidth << ' ' << height
         << "\" role=\"img\" aria-labelledby=\"t d\">\n"
         << "<title id=\"t\">Memory of " << MarkupText(name_) << "</title>\n<desc id=\"d\">"
         << MarkupText(absl::StrJoin(Headline(figures_), " ")) << "</desc>\n<style>" << kPlotStyle
         << "</style>\n<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
            "patternUnits=\"userSpaceOnUse\">"
         << "<rect class=\"hole\" width=\"6\" height=\"6\"/><path class=\"hatch\" d=\"M-1 1l2-2M0 "
            "6l6-6M5 7l2-2\"/>"
         << "</pattern></defs>\n<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n";
    Text(16, 24, "h", name_);
    y = 44;
    for (const std::string& line : lines) Text(16, std::exchange(y, y + 18), "t", line);
    if (trace_.has_history) {
      WriteMarks();
      WriteCurve();
      WriteMap();
    } else {
      WriteHolders();
    }
    out_ << "</svg>\n";
  }

 private:
  void Text(double x, double y, std::string_view style, const std::string& text) {
    out_ << "<text x=\"" << Place(x) << "\" y=\"" << Place(y) << "\" class=\"" << style << "\">"
         << MarkupText(text) << "</text>\n";
  }
  void Path(std::string_view style, std::string_view path, std::string_view more = "") {
    if (!path.empty())
      out_ << "<path class=\"" << style << "\" d=\"" << path << "\"" << more << "/>\n";
  }

  // Draws reserved and live memory and its largest holders as bars: without a history they have no
  // order in time.
  void WriteHolders() {
    std::vector<NamedBytes> bars;
    const std::int64_t live = figures_.measured.load.unfreed_bytes;
    if (figures_.reserved_peak.has_value()) bars.push_back({"reserved", *figures_.reserved_peak});
    bars.push_back({"live", live});
    const std::int64_t last = static_cast<std::int64_t>(trace_.events.size()) - 1;
    if (const auto numbers = LiveAfter(trace_, last); numbers.ok()) {
      for (NamedBytes& part : BytesByFrame(trace_, *numbers, figures_.measured.alignment)) {
        if (bars.size() == kMostHolders) break;
        bars.push_back(std::move(part));
      }
    }
    double most = 1;
    for (const NamedBytes& bar : bars) most = std::max(most, static_cast<double>(bar.bytes));
    double y = curve_top_;
    for (const NamedBytes& bar : bars) {
      const double width = static_cast<double>(bar.bytes) / most * kBarWidth;
      out_ << "<rect class=\"" << (bar.name == "reserved" ? "k-reserved" : "k-live")
           << "\" x=\"16\" y=\"" << Place(y) << "\" width=\"" << Place(width)
           << "\" height=\"14\"/>\n";
      Text(24 + width, y + 11, "t",
           absl::StrCat(SizeText(bar.bytes), " ", absl::CHexEscape(bar.name)));
      y += kBarStep;
    }
  }

  bool HasMarks() const {
    return std::any_of(trace_.events.begin(), trace_.events.end(), [](const TraceEvent& event) {
      return event.kind == TraceEvent::Kind::kMark;
    });
  }

  double X(double event) const {
    return event / std::max<double>(1, static_cast<double>(trace_.events.size())) * kPlotWidth;
  }

  std::int64_t Aligned(std::int64_t bytes) const {
    return AlignUp(bytes, figures_.measured.alignment);
  }

  void WriteMarks() {
    std::string path;
    double free = -10;
    double last = -10;
    std::vector<std::pair<double, std::string>> names;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.events[i].kind != TraceEvent::Kind::kMark) continue;
      const double x = X(static_cast<double>(i));
      names.emplace_back(x, trace_.mark_names[trace_.events[i].index]);
      if (x - last < 2) continue;
      last = x;
      absl::StrAppend(&path, "M", Place(kLeft + x), " ", curve_top_, "v", kCurveHeight, "M",
                      Place(kLeft + x), " ", map_top_, "v", kMapHeight);
    }
    marks_ = std::move(path);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& [x, name] = names[i];
      const double next = i + 1 < names.size() ? names[i + 1].first : kPlotWidth;
      // The approximate width of letters.
      if (x < free || next - x < 7.0 * static_cast<double>(name.size())) continue;
      free = x + 7.0 * static_cast<double>(name.size());
      Text(kLeft + x + 2, curve_top_ - 6, "t", name);
    }
  }

  void WriteAcross(int bottom) {
    const auto events = static_cast<double>(trace_.events.size());
    const double step = DecimalStep(events, 7);
    Text(16, bottom + 16, "t", "event");
    for (int i = 0; i * step <= events; ++i) {
      const double tick = i * step;
      Text(kLeft + X(tick), bottom + 16, "t m", CountText(static_cast<std::int64_t>(tick)));
    }
  }

  void WriteUp(int top, int height, double most, int ticks, bool has_grid) {
    const double step = ByteStep(most, ticks);
    std::string grid;
    for (int i = 0; i * step <= most; ++i) {
      const double tick = i * step;
      const double y = top + height - tick / most * height;
      Text(kLeft - 8, y + 4, "t e", TickText(tick));
      absl::StrAppend(&grid, "M", has_grid ? kLeft : kLeft - 5, " ", Place(y), "h",
                      has_grid ? kPlotWidth : 5);
    }
    Path("grid", grid);
  }

  // Returns the least and the most live bytes in each column of a unit.
  std::vector<std::pair<std::int64_t, std::int64_t>> LiveByColumn() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> columns;
    std::int64_t live = 0;
    std::size_t event = 0;
    for (int column = 0; column < kPlotWidth; ++column) {
      std::pair<std::int64_t, std::int64_t> range(live, live);
      // An event at the right edge of a column counts to the next column.
      while (event < trace_.events.size() && X(static_cast<double>(event)) < column + 1) {
        const TraceEvent& change = trace_.events[event++];
        if (!change.TouchesMemory()) continue;
        const std::int64_t bytes = Aligned(trace_.allocations[change.index].bytes);
        live += change.kind == TraceEvent::Kind::kAllocate ? bytes : -bytes;
        range.first = std::max(range.first, live);
        range.second = std::min(range.second, live);
      }
      columns.push_back(range);
    }
    return columns;
  }

  std::string ReservedPath(double most) const {
    std::string path = absl::StrCat("M", kLeft, " ", curve_top_ + kCurveHeight);
    std::int64_t reserved = 0;
    double last_x = -1;
    std::string level;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.events[i].kind != TraceEvent::Kind::kReserve) continue;
      reserved += trace_.reservations[trace_.events[i].index].bytes;
      const double x = X(static_cast<double>(i));
      if (x - last_x >= 0.5) {
        absl::StrAppend(&path, level, "H", Place(kLeft + x));
        last_x = x;
      }
      level = absl::StrCat("V", Place(CurveY(static_cast<double>(reserved), most)));
    }
    return absl::StrCat(path, level, "H", kRight);
  }

  double CurveY(double bytes, double most) const {
    return curve_top_ + kCurveHeight * (1 - bytes / most);
  }

  void WriteCurve() {
    const std::int64_t peak = figures_.measured.load.peak_live_bytes;
    std::int64_t largest =
        std::max({peak, figures_.measured.alignment, figures_.budget_bytes.value_or(0),
                  figures_.reserved_peak.value_or(0)});
    for (const Layout& layout : figures_.layouts) largest = std::max(largest, layout.pool_bytes);
    const double most = static_cast<double>(largest) * 1.05;
    WriteUp(curve_top_, kCurveHeight, most, 4, true);
    Path("mark", marks_);
    WriteLive(most);
    std::vector<Label> labels;
    const auto add = [&](std::int64_t bytes, std::string key, const std::string& text,
                         bool is_bold) {
      labels.push_back({CurveY(static_cast<double>(bytes), most), 0, std::move(key),
                        absl::StrCat(text, " ", SizeText(bytes)), is_bold});
    };
    if (figures_.reserved_peak.has_value()) {
      Path("line reserved", ReservedPath(most));
      add(*figures_.reserved_peak, "k-reserved", "reserved", false);
    }
    const bool has_history = figures_.measured.trace->has_history;
    for (std::size_t i = 0; has_history && i < figures_.layouts.size(); ++i) {
      const Layout& layout = figures_.layouts[i];
      WriteLevel(layout.pool_bytes, most, absl::StrCat("line p", i % kPolicyColours),
                 kDashes[i % kDashes.size()]);
      add(layout.pool_bytes, absl::StrCat("k", i % kPolicyColours),
          absl::StrCat(layout.size.policy,
                       IsUpperBound(layout, figures_.measured.demand) ? " \xE2\x89\xA4" : ""),
          i == 0);
    }
    if (figures_.budget_bytes.has_value()) {
      WriteLevel(*figures_.budget_bytes, most, "line budget", "10 5");
      add(*figures_.budget_bytes, "k-budget", "budget", true);
    }
    add(peak, "k-live", has_history ? "live, peak" : "live", false);
    WriteLabels(labels);
    WriteAcross(curve_top_ + kCurveHeight);
  }

  void WriteLive(double most) {
    std::string line;
    std::string area = absl::StrCat("M", kLeft, " ", curve_top_ + kCurveHeight);
    std::string last;
    int x = kLeft;
    for (const auto& [high, low] : LiveByColumn()) {
      const std::string top = Place(CurveY(static_cast<double>(high), most));
      const std::string bottom = Place(CurveY(static_cast<double>(low), most));
      if (top != last) absl::StrAppend(&area, "H", x, "V", top);
      if (line.empty()) {
        absl::StrAppend(&line, "M", x, " ", bottom);
      } else if (top != last || bottom != top) {
        absl::StrAppend(&line, "H", x, "V", top, bottom == top ? "" : absl::StrCat("V", bottom));
      }
      last = bottom == top ? top : "";
      ++x;
    }
    Path("area", absl::StrCat(area, "H", kRight, "V", curve_top_ + kCurveHeight, "z"));
    Path("live", absl::StrCat(line, "H", kRight));
  }

  void WriteLevel(std::int64_t bytes, double most, std::string_view style, std::string_view dash) {
    Path(
        style,
        absl::StrCat("M", kLeft, " ", Place(CurveY(static_cast<double>(bytes), most)), "H", kRight),
        dash.empty() ? "" : " stroke-dasharray=\"" + std::string(dash) + "\"");
  }

  void WriteLabels(std::vector<Label> labels) {
    Spread(labels, 15, curve_top_ + 4, curve_top_ + kCurveHeight - 4);
    std::string leaders;
    for (const Label& label : labels) {
      absl::StrAppend(&leaders, "M", kRight, " ", Place(label.at), "L", kRight + 8, " ",
                      Place(label.y), "h4");
      out_ << "<rect class=\"" << label.key << "\" x=\"" << kRight + 12 << "\" y=\""
           << Place(label.y - 4) << "\" width=\"8\" height=\"8\"/>\n";
      Text(kRight + 25, label.y + 4, label.is_bold ? "b" : "", label.text);
    }
    Path("grid", leaders);
  }

  std::vector<std::int64_t> Ends() const {
    std::vector<std::int64_t> ends(trace_.allocations.size(),
                                   static_cast<std::int64_t>(trace_.events.size()));
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.kind == TraceEvent::Kind::kFree) ends[event.index] = static_cast<std::int64_t>(i);
    }
    return ends;
  }

  void WriteMap() {
    const std::vector<std::int64_t> ends = Ends();
    const double most = std::max<double>(1, static_cast<double>(layout_.pool_bytes));
    std::vector<SizeClasses::Use> uses;
    std::vector<std::pair<std::uint32_t, std::int64_t>> begun;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.kind != TraceEvent::Kind::kAllocate) continue;
      const auto start = static_cast<std::int64_t>(i);
      begun.emplace_back(event.index, start);
      uses.push_back({Aligned(trace_.allocations[event.index].bytes), ends[event.index] - start});
    }
    const SizeClasses classes(uses);
    std::vector<MapBox> boxes;
    const auto y = [&](std::int64_t address) {
      return kMapHeight * (1 - static_cast<double>(address) / most);
    };
    for (std::size_t i = 0; i < begun.size(); ++i) {
      const auto [number, start] = begun[i];
      const std::int64_t offset = layout_.offsets[number];
      if (offset < 0) continue;
      boxes.push_back({X(static_cast<double>(start)), y(offset + uses[i].bytes),
                       X(static_cast<double>(ends[number])), y(offset),
                       classes.ClassOf(uses[i].bytes)});
    }
    WriteMapPaths(DrawMap(boxes, classes.size(), kPlotWidth, kMapHeight), classes);
    WriteUp(map_top_, kMapHeight, most, 6, false);
    WriteAcross(map_top_ + kMapHeight);
  }

  void WriteMapPaths(const MapPaths& paths, const SizeClasses& classes) {
    out_ << "<g transform=\"translate(" << kLeft << ' ' << map_top_
         << ")\">\n<rect class=\"free\" width=\"" << kPlotWidth << "\" height=\"" << kMapHeight
         << "\"/>\n";
    std::string sky = absl::StrCat("M0 ", kMapHeight);
    double last = kMapHeight;
    for (std::size_t i = 0; i < paths.skyline.size(); ++i) {
      if (paths.skyline[i] == last) continue;
      last = paths.skyline[i];
      absl::StrAppend(&sky, "H", i, "V", Place(last));
    }
    Path("", absl::StrCat(sky, "H", kPlotWidth, "V", kMapHeight, "z"), " fill=\"url(#hatch)\"");
    for (std::size_t i = 0; i < classes.size(); ++i) Path(Style(i, classes), paths.cells[i]);
    for (std::size_t i = 0; i < classes.size(); ++i) Path(Style(i, classes) + " x", paths.boxes[i]);
    out_ << "</g>\n";
    Path("mark", marks_);
    Path("line p0", absl::StrCat("M", kLeft, " ", map_top_, "H", kRight));
    double y = map_top_ + 8;
    const auto key = [&](const std::string& attributes, const std::string& text) {
      out_ << "<rect " << attributes << " x=\"" << kRight + 12 << "\" y=\"" << Place(y - 6)
           << "\" width=\"10\" height=\"10\"/>\n";
      Text(kRight + 27, y + 3, "", text);
      y += 17;
    };
    Text(kRight + 12, y + 3, "b", absl::StrCat("addresses, ", layout_.size.policy));
    y += 19;
    for (std::size_t i = classes.size(); i-- > 0;) {
      key(absl::StrCat("class=\"", Style(i, classes), "\""), classes.Name(i));
    }
    key("fill=\"url(#hatch)\"", "hole between blocks");
    key("class=\"free grid\"", "free above them");
  }

  // With few classes the colours are as far apart as the palette allows.
  static std::string Style(std::size_t number, const SizeClasses& classes) {
    if (classes.size() == 1) return "s4";
    const double step =
        static_cast<double>(SizeClasses::kMost - 1) / static_cast<double>(classes.size() - 1);
    return absl::StrCat("s", std::llround(static_cast<double>(number) * step));
  }

  const ReportFigures& figures_;
  const Trace& trace_;
  const Layout& layout_;
  const std::string name_;
  std::ostream& out_;
  int curve_top_ = 0;
  int map_top_ = 0;
  std::string marks_;
};

}  // namespace

absl::Status WriteDrawing(const ReportFigures& figures, const std::string& name,
                          std::ostream& out) {
  Drawing(figures, name, out).Write();
  return absl::OkStatus();
}

}  // namespace tidepool::tool
