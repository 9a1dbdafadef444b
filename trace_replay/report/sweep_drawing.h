// SPDX-License-Identifier: Apache-2.0
// A sweep as an SVG drawing: the time of an iteration over the memory of the device.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_SWEEP_DRAWING_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_SWEEP_DRAWING_H_

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace tidepool::tool {

struct SweepCurve {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // bytes and seconds; ascending bytes
  bool in_steps = false;                               // each time holds up to the next point
};

// A memory of interest, such as that of a GPU.
struct DrawnMark {
  std::string name;
  double bytes = 0;
  bool is_strong = false;
};
struct DrawnMarks {
  std::vector<DrawnMark> marks = {};
  std::vector<std::string> lines = {};  // of text below the plot
};

// Draws one line for each curve, from `least_bytes` to `most_bytes`. Curves without points have a
// label that says so. `ideal_seconds` has a line of its own; 0: no such line. The
// axis of memory goes on to the first mark beyond it that is not twice as far. Other marks beyond
// it are not drawn.
void WriteSweepDrawing(const std::string& title, const std::vector<SweepCurve>& curves,
                       double least_bytes, double most_bytes, double ideal_seconds,
                       std::ostream& out, const DrawnMarks& marks = {});

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_SWEEP_DRAWING_H_
