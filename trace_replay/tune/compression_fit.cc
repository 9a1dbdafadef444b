// SPDX-License-Identifier: Apache-2.0
// Theil-Sen and Tukey fits of a line.
#include "trace_replay/tune/compression_fit.h"

#include <algorithm>
#include <cmath>

#include "trace_replay/tune/median.h"

namespace tidepool::tool {
namespace {

double At(const CompressionCost& line, double x) { return line.a + line.b * x; }

// Returns the Theil-Sen line: the median slope between samples, and the median of the rests.
CompressionCost MedianLine(const std::vector<CostSample>& samples) {
  std::vector<double> slopes;
  for (const CostSample& one : samples) {
    for (const CostSample& other : samples) {
      if (one.x < other.x) slopes.push_back((other.y - one.y) / (other.x - one.x));
    }
  }
  CompressionCost line;
  line.b = slopes.empty() ? 0 : Median(slopes);
  std::vector<double> rests;
  rests.reserve(samples.size());
  for (const CostSample& sample : samples) rests.push_back(sample.y - line.b * sample.x);
  line.a = Median(rests);
  return line;
}

// Returns the line of least weighted squares with a and b of at least 0.
CompressionCost SquaresLine(const std::vector<CostSample>& samples,
                            const std::vector<double>& weights) {
  double w = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    w += weights[i];
    x += weights[i] * samples[i].x;
    y += weights[i] * samples[i].y;
    xx += weights[i] * samples[i].x * samples[i].x;
    xy += weights[i] * samples[i].x * samples[i].y;
  }
  const double determinant = w * xx - x * x;
  if (determinant <= 1e-12 * w * xx) return {y / w, 0};
  const CompressionCost line = {(y * xx - x * xy) / determinant, (w * xy - x * y) / determinant};
  if (line.b < 0) return {y / w, 0};
  if (line.a < 0) return {0, xy / xx};
  return line;
}

}  // namespace

CompressionCost FitCost(const std::vector<CostSample>& samples) {
  constexpr int kSteps = 50;
  // Beyond this many standard deviations a sample has no weight (Tukey).
  constexpr double kDeviations = 4.685;
  if (samples.empty()) return {};
  double largest = 0;
  for (const CostSample& sample : samples) largest = std::max(largest, sample.y);
  CompressionCost line = MedianLine(samples);
  std::vector<double> weights(samples.size());
  for (int step = 0; step < kSteps; ++step) {
    // Errors are relative to the line: relative to a sample that is far too small they would
    // explode.
    const auto scale = [&](const CostSample& sample) {
      return std::max(At(line, sample.x), largest * 1e-3);
    };
    std::vector<double> errors;
    errors.reserve(samples.size());
    for (const CostSample& sample : samples) {
      errors.push_back(std::abs(sample.y - At(line, sample.x)) / scale(sample));
    }
    // The standard deviation of normal errors is 1.4826 times their median. The lower bound avoids
    // a division by zero when all samples lie on the line.
    const double limit = std::max(kDeviations * 1.4826 * Median(errors), 1e-9);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double share = std::min(1.0, errors[i] / limit);
      const double tukey = (1 - share * share) * (1 - share * share);
      weights[i] = tukey / (scale(samples[i]) * scale(samples[i]));
    }
    line = SquaresLine(samples, weights);
  }
  return line;
}

}  // namespace tidepool::tool
