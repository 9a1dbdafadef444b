// SPDX-License-Identifier: Apache-2.0
// Samples small boxes in a grid, and merges its cells.
#include "trace_replay/report/map_paths.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/arithmetic.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kMostBoxes = 5000;
constexpr std::size_t kMostRuns = 16'000;
constexpr double kLeastWithEdge = 4;

// Formats a coordinate with one decimal, or none for a whole number.
std::string Number(double value) {
  const auto tenths = static_cast<std::int64_t>(std::llround(value * 10));
  if (tenths % 10 == 0) return absl::StrCat(tenths / 10);
  return absl::StrFormat("%s%d.%d", tenths < 0 ? "-" : "", std::abs(tenths) / 10,
                         std::abs(tenths) % 10);
}

void AppendBox(double left, double top, double right, double bottom, std::string& path) {
  const std::string width = Number(right - left);
  absl::StrAppend(&path, "M", Number(left), " ", Number(top), "h", width, "v", Number(bottom - top),
                  "h-", width, "z");
}

// Returns the least edge of boxes that are drawn as rectangles, so that at most kMostBoxes are.
double LeastEdge(const std::vector<MapBox>& boxes) {
  for (double edge = 1.5;; edge *= 1.5) {
    const auto count = std::count_if(boxes.begin(), boxes.end(), [&](const MapBox& box) {
      return box.right - box.left >= edge && box.bottom - box.top >= edge;
    });
    if (static_cast<std::size_t>(count) <= kMostBoxes) return edge;
  }
}

// A grid of cells. Each has the class of the box around its middle.
class Grid {
 public:
  static constexpr std::uint8_t kNone = 255;

  Grid(int width, int height, int cell)
      : cell_(cell),
        columns_(static_cast<std::size_t>(CeilDivide(width, cell))),
        rows_(static_cast<std::size_t>(CeilDivide(height, cell))),
        cells_(columns_ * rows_, kNone) {}

  void Add(const MapBox& box) {
    const std::size_t last_column = Cell(box.right, columns_);
    const std::size_t last_row = Cell(box.bottom, rows_);
    for (std::size_t row = Cell(box.top, rows_); row < last_row; ++row) {
      for (std::size_t column = Cell(box.left, columns_); column < last_column; ++column) {
        cells_[row * columns_ + column] = static_cast<std::uint8_t>(box.number);
      }
    }
  }

  // Merges cells into rectangles, each first as wide and then as high as possible. Returns false if
  // there are more than kMostRuns.
  bool AppendTo(std::vector<std::string>& paths) && {
    std::size_t runs = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t column = 0; column < columns_; ++column) {
        const std::uint8_t number = cells_[row * columns_ + column];
        if (number == kNone) continue;
        if (++runs > kMostRuns) return false;
        std::size_t end = column;
        while (end < columns_ && cells_[row * columns_ + end] == number) ++end;
        std::size_t below = row + 1;
        while (below < rows_ && IsRun(below, column, end, number)) ++below;
        for (std::size_t i = row; i < below; ++i) {
          std::fill_n(&cells_[i * columns_ + column], end - column, kNone);
        }
        AppendBox(Unit(column), Unit(row), Unit(end), Unit(below), paths[number]);
      }
    }
    return true;
  }

 private:
  // Returns the first cell with its middle at or after `position`.
  std::size_t Cell(double position, std::size_t most) const {
    return static_cast<std::size_t>(
        std::clamp(std::ceil(position / cell_ - 0.5), 0.0, static_cast<double>(most)));
  }
  double Unit(std::size_t cell) const { return static_cast<double>(cell) * cell_; }
  bool IsRun(std::size_t row, std::size_t from, std::size_t to, std::uint8_t number) const {
    return std::all_of(&cells_[row * columns_ + from], &cells_[row * columns_ + to],
                       [&](std::uint8_t cell) { return cell == number; });
  }

  int cell_;
  std::size_t columns_;
  std::size_t rows_;
  std::vector<std::uint8_t> cells_;
};

void RaiseSkyline(const MapBox& box, std::vector<double>& skyline) {
  const auto from = static_cast<std::size_t>(std::max(0.0, std::ceil(box.left - 0.5)));
  const auto to =
      std::min(skyline.size(), static_cast<std::size_t>(std::max(0.0, std::ceil(box.right - 0.5))));
  for (std::size_t i = from; i < to; ++i) skyline[i] = std::min(skyline[i], box.top);
}

}  // namespace

MapPaths DrawMap(const std::vector<MapBox>& boxes, std::size_t classes, int width, int height) {
  MapPaths paths;
  paths.boxes.resize(classes);
  paths.skyline.assign(static_cast<std::size_t>(width), height);
  std::vector<std::string> plain(classes);
  const double edge = LeastEdge(boxes);
  std::vector<MapBox> small;
  for (MapBox box : boxes) {
    box.left = std::max(box.left, 0.0);
    box.top = std::max(box.top, 0.0);
    box.right = std::min<double>(box.right, width);
    box.bottom = std::min<double>(box.bottom, height);
    if (box.left >= box.right || box.top >= box.bottom) continue;
    RaiseSkyline(box, paths.skyline);
    if (box.right - box.left < edge || box.bottom - box.top < edge) {
      small.push_back(box);
      continue;
    }
    const bool has_edge =
        box.right - box.left >= kLeastWithEdge && box.bottom - box.top >= kLeastWithEdge;
    AppendBox(box.left, box.top, box.right, box.bottom,
              (has_edge ? paths.boxes : plain)[box.number]);
  }
  for (int cell = 1;; cell *= 2) {
    paths.cells = plain;
    Grid grid(width, height, cell);
    for (const MapBox& box : small) grid.Add(box);
    if (std::move(grid).AppendTo(paths.cells)) return paths;
  }
}

}  // namespace tidepool::tool
