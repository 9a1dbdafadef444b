// The map of addresses by time as SVG paths, one a class, of bounded length: allocations that are
// large enough are rectangles; what is smaller is sampled in cells, and cells of a class that lie
// together are one rectangle.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace tidepool::tool {

// In units of the drawing; no two overlap.
struct MapBox {
  double left;
  double top;
  double right;
  double bottom;
  std::size_t number;  // of its class
};

struct MapPaths {
  std::vector<std::string> boxes;  // one path a class: rectangles that have room for an edge
  std::vector<std::string> cells;  // the same of what is smaller, or was sampled
  std::vector<double>
      skyline;  // the top of what is in use in each column of a unit; else the height
};

// Of boxes in [0, width] x [0, height] (what lies beyond is cut off) of `classes` classes.
MapPaths DrawMap(const std::vector<MapBox>& boxes, std::size_t classes, int width, int height);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_MAP_PATHS_H_
