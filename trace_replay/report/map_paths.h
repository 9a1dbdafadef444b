// SPDX-License-Identifier: Apache-2.0
// The map of addresses over time as SVG paths of bounded length, one a class. Large allocations are
// rectangles. Smaller ones are sampled in cells, and neighbouring cells of a class are merged.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace tidepool::tool {

// A rectangle in units of the drawing. No two boxes of a map overlap.
struct MapBox {
  double left;
  double top;
  double right;
  double bottom;
  std::size_t number;  // the class
};

struct MapPaths {
  std::vector<std::string> boxes;  // one path a class: rectangles large enough for an edge
  std::vector<std::string> cells;  // one path a class: merged cells of smaller boxes
  std::vector<double>
      skyline;  // the top of the highest box in each column of a unit; without a box, the height
};

// Draws boxes of `classes` classes. Parts outside [0, width] x [0, height] are cut off.
MapPaths DrawMap(const std::vector<MapBox>& boxes, std::size_t classes, int width, int height);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_
