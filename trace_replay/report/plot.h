// SPDX-License-Identifier: Apache-2.0
// Parts of the SVG drawings: colours, ticks of axes, labels beside curves.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_PLOT_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_PLOT_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace tidepool::tool {

// The style sheet, for light and dark pages. Lines have the classes p0 to p4, their keys k0 to k4.
extern const char* const kPlotStyle;
inline constexpr std::size_t kPolicyColours = 5;
// Dashes of lines, as SVG writes them; "" for a whole line.
inline constexpr std::array<const char*, 4> kDashes = {"", "7 4", "2 3", "9 3 2 3"};

// Returns a coordinate with at most one decimal.
std::string Place(double value);

// Returns the step between at most `most` ticks: 1, 2 or 5 times a power of ten, at least 1.
double DecimalStep(double range, int most);

// Returns the step between ticks of bytes: 1, 2 or 5 times a power of ten of a unit, or a half or a
// quarter of the next unit.
double ByteStep(double range, int most);

// Returns SizeText without ".0": "1.5 GiB", but "2 GiB".
std::string TickText(double bytes);

// A line of the legend at the right, drawn beside its curve where there is room.
struct Label {
  double at;  // of its curve
  double y;   // of the text
  std::string key;
  std::string text;
  bool is_bold = false;
};

// Sorts labels by their curves, and moves them apart: each has `height` between `from` and `to`.
void Spread(std::vector<Label>& labels, double height, double from, double to);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_PLOT_H_
