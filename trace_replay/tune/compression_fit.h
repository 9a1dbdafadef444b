// SPDX-License-Identifier: Apache-2.0
// Fits a straight line through measurements of which some are outliers.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_

#include <vector>

#include "tidepool/copies/compression_profile.h"

namespace tidepool::tool {

struct CostSample {
  double x = 0;  // at least 0
  double y = 0;  // more than 0: a time
};

// Returns a and b, at least 0, for the line a + b x. Iteratively reweighted least squares of the
// relative errors with Tukey's bisquare weights (Beaton and Tukey, 1974), from a Theil-Sen line on:
// samples far from the line lose their weight, so a quarter of the samples may be outliers. b is 0
// without two samples of different x; a is 0 too without samples. O(samples^2).
CompressionCost FitCost(const std::vector<CostSample>& samples);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_FIT_H_
