// SPDX-License-Identifier: Apache-2.0
// Lays out the drawing of a sweep: axes, curves and their labels.
#include "trace_replay/report/sweep_drawing.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "trace_replay/report/markup.h"
#include "trace_replay/report/plot.h"

namespace tidepool::tool {
namespace {

constexpr int kSweepWidth = 960;
constexpr int kPlotLeft = 80;
constexpr int kTop = 60;
constexpr int kSweepPlotWidth = 640;
constexpr int kPlotHeight = 320;
constexpr int kPlotRight = kPlotLeft + kSweepPlotWidth;
constexpr int kBottom = kTop + kPlotHeight;
constexpr double kLabelHeight = 15;
constexpr std::size_t kMostLetters = 130;  // of a line of text

// Ticks count nanoseconds, so that DecimalStep's least step is far below any iteration.
constexpr double kTick = 1e-9;

// Returns the end of the axis of memory: the first mark beyond it, if that is near.
double WithNextMark(double most_bytes, const std::vector<DrawnMark>& marks) {
  double found = 2 * most_bytes;
  for (const DrawnMark& mark : marks) {
    if (mark.bytes >= most_bytes) found = std::min(found, mark.bytes);
  }
  return found < 2 * most_bytes ? found : most_bytes;
}

// Returns the lines of text, each broken at separators between its words.
std::vector<std::string> Broken(const std::vector<std::string>& lines) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    bool is_first = true;
    for (const absl::string_view part : absl::StrSplit(line, " · ")) {
      if (is_first) {
        found.emplace_back(part);
      } else if (found.back().size() + part.size() > kMostLetters) {
        found.push_back(absl::StrCat("    ", part));
      } else {
        absl::StrAppend(&found.back(), " · ", part);
      }
      is_first = false;
    }
  }
  return found;
}

class SweepDrawing {
 public:
  SweepDrawing(const std::vector<SweepCurve>& curves, double least_bytes, double most_bytes,
               double ideal_seconds, const DrawnMarks& marks, std::ostream& out)
      : curves_(curves),
        marks_(marks.marks),
        lines_(Broken(marks.lines)),
        least_bytes_(least_bytes),
        most_bytes_(std::max(WithNextMark(most_bytes, marks.marks), least_bytes + 1)),
        ideal_seconds_(ideal_seconds),
        most_seconds_(MostSeconds(curves, ideal_seconds)),
        out_(out) {}

  void Write(const std::string& title) {
    const int labels_bottom =
        kTop + static_cast<int>(kLabelHeight * static_cast<double>(curves_.size() + 1));
    const int lines_top = std::max(kBottom + 50, labels_bottom + 20);
    const int height =
        lines_top + static_cast<int>(kLabelHeight * static_cast<double>(lines_.size() + 1)) *
                        (lines_.empty() ? 0 : 1);
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kSweepWidth << "\" height=\""
         << height << "\" viewBox=\"0 0 " << kSweepWidth << ' ' << height
         << "\" role=\"img\" aria-labelledby=\"t\">\n<title id=\"t\">" << MarkupText(title)
         << "</title>\n<style>" << kPlotStyle
         << "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n";
    Text(16, 24, "h", title);
    Text(16, kTop - 12, "t", "time of an iteration");
    Text(kPlotRight, kBottom + 36, "t e", "memory of the device");
    WriteAcross();
    WriteUp();
    WriteMarks();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Text(16, lines_top + kLabelHeight * static_cast<double>(i + 1), "t", lines_[i]);
    }
    for (std::size_t i = 0; i < curves_.size(); ++i) WriteCurve(i);
    WriteIdeal();
    WriteLabels(std::max<double>(kBottom, labels_bottom));
    out_ << "</svg>\n";
  }

 private:
  static double MostSeconds(const std::vector<SweepCurve>& curves, double ideal_seconds) {
    double most = std::max(ideal_seconds, kTick);
    for (const SweepCurve& curve : curves) {
      for (const auto& [bytes, seconds] : curve.points) most = std::max(most, seconds);
    }
    return most * 1.05;
  }

  double X(double bytes) const {
    return kPlotLeft + (bytes - least_bytes_) / (most_bytes_ - least_bytes_) * kSweepPlotWidth;
  }
  double Y(double seconds) const { return kBottom - seconds / most_seconds_ * kPlotHeight; }

  void Text(double x, double y, const std::string& style, const std::string& text) {
    out_ << "<text x=\"" << Place(x) << "\" y=\"" << Place(y) << "\" class=\"" << style << "\">"
         << MarkupText(text) << "</text>\n";
  }

  void WriteAcross() {
    const double step = ByteStep(most_bytes_ - least_bytes_, 7);
    std::string ticks;
    for (double tick = std::ceil(least_bytes_ / step) * step; tick <= most_bytes_; tick += step) {
      absl::StrAppend(&ticks, "M", Place(X(tick)), " ", kTop, "V", kBottom + 5);
      Text(X(tick), kBottom + 18, "t m", TickText(tick));
    }
    out_ << "<path class=\"grid\" d=\"" << ticks << "M" << kPlotLeft << " " << kBottom << "H"
         << kPlotRight << "\"/>\n";
  }

  void WriteUp() {
    const double step = DecimalStep(most_seconds_ / kTick, 6) * kTick;
    std::string ticks;
    for (int i = 0; i * step <= most_seconds_; ++i) {
      absl::StrAppend(&ticks, "M", kPlotLeft, " ", Place(Y(i * step)), "H", kPlotRight);
      Text(kPlotLeft - 8, Y(i * step) + 4, "t e", absl::StrFormat("%.6g ms", i * step * 1e3));
    }
    out_ << "<path class=\"grid\" d=\"" << ticks << "\"/>\n";
  }

  // Names of neighbours lie one below the other.
  void WriteMarks() {
    std::vector<const DrawnMark*> shown;
    for (const DrawnMark& mark : marks_) {
      if (mark.bytes >= least_bytes_ && mark.bytes <= most_bytes_) shown.push_back(&mark);
    }
    std::stable_sort(shown.begin(), shown.end(), [](const DrawnMark* one, const DrawnMark* other) {
      return one->bytes < other->bytes;
    });
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const double x = X(shown[i]->bytes);
      out_ << "<path class=\"grid\"" << (shown[i]->is_strong ? "" : " stroke-dasharray=\"2 3\"")
           << " d=\"M" << Place(x) << ' ' << kTop << "V" << kBottom << "\"/>\n";
      Text(x - 4, kTop + kLabelHeight * static_cast<double>(i + 1), "t e", shown[i]->name);
    }
  }

  void WriteCurve(std::size_t number) {
    const SweepCurve& curve = curves_[number];
    if (curve.points.empty()) return;
    const char* const dash = kDashes[number / kPolicyColours % kDashes.size()];
    std::string path;
    for (const auto& [bytes, seconds] : curve.points) {
      if (curve.in_steps && !path.empty()) absl::StrAppend(&path, "H", Place(X(bytes)));
      absl::StrAppend(&path, path.empty() ? "M" : "L", Place(X(bytes)), " ", Place(Y(seconds)));
    }
    if (curve.in_steps) absl::StrAppend(&path, "H", kPlotRight);
    out_ << "<path class=\"line p" << number % kPolicyColours << "\" d=\"" << path << "\""
         << (*dash == '\0' ? "" : absl::StrCat(" stroke-dasharray=\"", dash, "\"")) << "/>\n";
    for (const auto& [bytes, seconds] : curve.points) {
      out_ << "<circle class=\"k" << number % kPolicyColours << "\" cx=\"" << Place(X(bytes))
           << "\" cy=\"" << Place(Y(seconds)) << "\" r=\"2.2\"/>\n";
    }
  }

  void WriteIdeal() {
    if (ideal_seconds_ == 0) return;
    out_ << "<path class=\"line reserved\" stroke-dasharray=\"2 3\" d=\"M" << kPlotLeft << " "
         << Place(Y(ideal_seconds_)) << "H" << kPlotRight << "\"/>\n";
  }

  void WriteLabels(double bottom) {
    std::vector<Label> labels;
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      const SweepCurve& curve = curves_[i];
      const bool is_empty = curve.points.empty();
      labels.push_back({is_empty ? kTop : Y(curve.points.back().second), 0,
                        absl::StrCat("k", i % kPolicyColours),
                        is_empty ? curve.name + ": does not fit" : curve.name});
    }
    if (ideal_seconds_ > 0) {
      labels.push_back({Y(ideal_seconds_), 0, "k-reserved", "ideal, all data in memory"});
    }
    Spread(labels, kLabelHeight, kTop, bottom);
    for (const Label& label : labels) {
      out_ << "<rect class=\"" << label.key << "\" x=\"" << kPlotRight + 12 << "\" y=\""
           << Place(label.y - 4) << "\" width=\"8\" height=\"8\"/>\n";
      Text(kPlotRight + 25, label.y + 4, "", label.text);
    }
  }

  const std::vector<SweepCurve>& curves_;
  const std::vector<DrawnMark>& marks_;
  const std::vector<std::string> lines_;
  const double least_bytes_;
  const double most_bytes_;
  const double ideal_seconds_;
  const double most_seconds_;
  std::ostream& out_;
};

}  // namespace

void WriteSweepDrawing(const std::string& title, const std::vector<SweepCurve>& curves,
                       double least_bytes, double most_bytes, double ideal_seconds,
                       std::ostream& out, const DrawnMarks& marks) {
  SweepDrawing(curves, least_bytes, most_bytes, ideal_seconds, marks, out).Write(title);
}

}  // namespace tidepool::tool
