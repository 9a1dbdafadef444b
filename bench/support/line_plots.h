// SPDX-License-Identifier: Apache-2.0
// A page of small line plots as SVG: one plot for each row and column, one line for each name.
#ifndef TIDEPOOL_BENCH_SUPPORT_LINE_PLOTS_H_
#define TIDEPOOL_BENCH_SUPPORT_LINE_PLOTS_H_

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool::bench {

struct LinePlot {
  std::string title;
  std::map<std::string, std::vector<std::pair<double, double>>> lines;  // points by x
};

// The plots of a page in rows of `columns`. x goes from 0 to 100.
struct PlotPage {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::size_t columns = 4;
  double least_y = 0;
  double most_y = std::numeric_limits<double>::infinity();  // larger values are cut off
  std::vector<LinePlot> plots = {};
};

namespace plots {

inline constexpr double kWidth = 240;
inline constexpr double kHeight = 150;
inline constexpr double kMargin = 36;
inline constexpr const char* kColors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                          "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22"};

inline std::string Text(double x, double y, const std::string& text, const char* more = "") {
  return absl::StrCat("<text x=\"", x, "\" y=\"", y, "\" ", more, ">", text, "</text>\n");
}

// Returns the colour of a name: by its place among all names of the page.
inline const char* ColorOf(const std::vector<std::string>& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name) - names.begin();
  return kColors[static_cast<std::size_t>(at) % std::size(kColors)];
}

inline std::vector<std::string> NamesOf(const PlotPage& page) {
  std::vector<std::string> names;
  for (const LinePlot& plot : page.plots) {
    for (const auto& [name, points] : plot.lines) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline double LargestY(const PlotPage& page, const LinePlot& plot) {
  double largest = page.least_y;
  for (const auto& [name, points] : plot.lines) {
    for (const auto& [x, y] : points) largest = std::max(largest, y);
  }
  return largest > page.least_y ? std::min(largest, page.most_y) : page.least_y + 1;
}

inline std::string PlotSvg(const PlotPage& page, const LinePlot& plot,
                           const std::vector<std::string>& names) {
  const double most = LargestY(page, plot);
  const auto at_x = [](double x) { return kMargin + x / 100 * (kWidth - kMargin - 8); };
  const auto at_y = [&](double y) {
    const double share = (std::min(y, most) - page.least_y) / (most - page.least_y);
    return kHeight - 26 - share * (kHeight - 46);
  };
  std::string svg = Text(kWidth / 2, 14, plot.title, "text-anchor=\"middle\" font-weight=\"bold\"");
  absl::StrAppend(&svg, "<path d=\"M", at_x(0), ",", at_y(most), "V", at_y(page.least_y), "H",
                  at_x(100), "\" fill=\"none\" stroke=\"#444\"/>\n");
  for (const double y : {page.least_y, (page.least_y + most) / 2, most}) {
    svg += Text(kMargin - 3, at_y(y) + 3,
                absl::StrCat(static_cast<double>(static_cast<int>(y * 100)) / 100),
                "text-anchor=\"end\"");
  }
  for (const double x : {0.0, 50.0, 100.0}) {
    svg += Text(at_x(x), kHeight - 14, absl::StrCat(x), "text-anchor=\"middle\"");
  }
  for (const auto& [name, points] : plot.lines) {
    absl::StrAppend(&svg, "<polyline fill=\"none\" stroke-width=\"1.3\" stroke=\"",
                    ColorOf(names, name), "\" points=\"");
    for (const auto& [x, y] : points) absl::StrAppend(&svg, at_x(x), ",", at_y(y), " ");
    svg += "\"/>\n";
  }
  return svg;
}

}  // namespace plots

inline void WritePlots(const PlotPage& page, const std::string& path) {
  const std::vector<std::string> names = plots::NamesOf(page);
  const std::size_t rows = CeilDivide(page.plots.size(), page.columns);
  const double width = static_cast<double>(page.columns) * plots::kWidth;
  const double height = 60 + static_cast<double>(rows) * plots::kHeight;
  std::ofstream out(path);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n"
      << plots::Text(8, 18, page.title, "font-size=\"14\" font-weight=\"bold\"")
      << plots::Text(8, 34, absl::StrCat("x: ", page.x_label, "; y: ", page.y_label));
  double x = 8;
  for (const std::string& name : names) {
    out << "<rect x=\"" << x << "\" y=\"42\" width=\"12\" height=\"4\" fill=\""
        << plots::ColorOf(names, name) << "\"/>\n"
        << plots::Text(x + 16, 48, name);
    x += 30 + 6 * static_cast<double>(name.size());
  }
  for (std::size_t k = 0; k < page.plots.size(); ++k) {
    out << "<g transform=\"translate(" << static_cast<double>(k % page.columns) * plots::kWidth
        << "," << 60 + static_cast<double>(k / page.columns) * plots::kHeight << ")\">\n"
        << plots::PlotSvg(page, page.plots[k], names) << "</g>\n";
  }
  out << "</svg>\n";
}

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_LINE_PLOTS_H_
