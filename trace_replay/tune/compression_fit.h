// A straight line through measurements, some of which are wrong.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_

#include <vector>

#include "tidepool/compress/compression_profile.h"

namespace tidepool::tool {

struct CostSample {
  double x = 0;  // at least 0
  double y = 0;  // more than 0: a time
};

// a and b, neither less than 0, so that a + b x is near y: least squares of what is wrong in
// proportion to the line, in which samples far off count less and then not at all (Tukey's
// bisquare), from the medians of Theil and Sen on. A quarter of the samples may be anything.
// Without two samples of different x b is 0; without samples a is, too. O(samples^2).
CompressionCost FitCost(const std::vector<CostSample>& samples);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_
