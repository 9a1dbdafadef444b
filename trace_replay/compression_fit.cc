#include "trace_replay/compression_fit.h"

#include <algorithm>
#include <cmath>

#include "trace_replay/median.h"

namespace tidepool::tool {
namespace {

double At(const CompressionCost& line, double x) { return line.a + line.b * x; }

// The median of the slopes between samples, and of what is left without them.
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
  for (const CostSample& sample : samples) rests.push_back(sample.y - line.b * sample.x);
  line.a = Median(rests);
  return line;
}

// Of least weighted squares among those with a and b of at least 0.
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
  // Huber: behind so many deviations a sample counts less.
  constexpr double kDeviations = 1.345;
  if (samples.empty()) return {};
  CompressionCost line = MedianLine(samples);
  std::vector<double> weights(samples.size());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> wrong;
    for (const CostSample& sample : samples) {
      wrong.push_back(std::abs(sample.y - At(line, sample.x)) / sample.y);
    }
    // Of normal errors, the deviation is 1.4826 times the median. Of samples that fit, any.
    const double limit = std::max(kDeviations * 1.4826 * Median(wrong), 1e-9);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double huber = wrong[i] <= limit ? 1 : limit / wrong[i];
      weights[i] = huber / (samples[i].y * samples[i].y);
    }
    line = SquaresLine(samples, weights);
  }
  return line;
}

}  // namespace tidepool::tool
