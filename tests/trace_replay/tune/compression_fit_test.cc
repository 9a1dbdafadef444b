// SPDX-License-Identifier: Apache-2.0
// Tests the fit on samples of known lines.
#include "trace_replay/tune/compression_fit.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tidepool::tool {
namespace {

std::vector<CostSample> SamplesOf(const CompressionCost& line, int count) {
  std::vector<CostSample> samples;
  for (int i = 0; i < count; ++i) {
    const double x = static_cast<double>(i) / (count - 1);
    samples.push_back({x, line.a + line.b * x});
  }
  return samples;
}

TEST(CompressionFit, FindsALine) {
  for (const CompressionCost& line :
       {CompressionCost{0.099, 0.099}, CompressionCost{0.1, 0}, CompressionCost{0.01, 3}}) {
    const CompressionCost fit = FitCost(SamplesOf(line, 5));
    EXPECT_NEAR(fit.a, line.a, 1e-9);
    EXPECT_NEAR(fit.b, line.b, 1e-9);
  }
}

TEST(CompressionFit, TwoAndFewerSamples) {
  EXPECT_EQ(FitCost({}).a, 0);
  EXPECT_EQ(FitCost({}).b, 0);
  EXPECT_NEAR(FitCost({{0.5, 2}}).a, 2, 1e-12);
  EXPECT_EQ(FitCost({{0.5, 2}}).b, 0);
  EXPECT_NEAR(FitCost({{0.5, 2}, {0.5, 2}}).a, 2, 1e-12);
  EXPECT_NEAR(FitCost({{0, 1}, {1, 3}}).b, 2, 1e-9);
}

TEST(CompressionFit, IsNeverNegative) {
  const CompressionCost falling = FitCost({{0, 2}, {0.5, 1.5}, {1, 1}});
  EXPECT_EQ(falling.b, 0);
  EXPECT_GT(falling.a, 1);
  const CompressionCost steep = FitCost({{0.1, 0.01}, {0.5, 1}, {1, 3}});
  EXPECT_EQ(steep.a, 0);
  EXPECT_GT(steep.b, 0);
}

TEST(CompressionFit, NoiseAveragesOut) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(1, 0.05);
  const CompressionCost line = {0.11, 0.07};
  for (int i = 0; i < 100; ++i) {
    std::vector<CostSample> samples = SamplesOf(line, 40);
    for (CostSample& sample : samples) sample.y *= noise(random);
    const CompressionCost fit = FitCost(samples);
    EXPECT_NEAR(fit.a, line.a, 0.01);
    EXPECT_NEAR(fit.b, line.b, 0.02);
  }
}

// Disturbs each of five measurements in turn, by small and large factors.
TEST(CompressionFit, OneDisturbedSampleDoesLittle) {
  const CompressionCost line = {0.099, 0.099};
  for (std::size_t disturbed = 0; disturbed < 5; ++disturbed) {
    for (const double factor : {0.3, 1.5, 3.0, 20.0}) {
      std::vector<CostSample> samples = SamplesOf(line, 5);
      samples[disturbed].y *= factor;
      const CompressionCost fit = FitCost(samples);
      for (const double x : {0.0, 0.5, 1.0}) {
        EXPECT_NEAR((fit.a + fit.b * x) / (line.a + line.b * x), 1, 0.03) << disturbed << factor;
      }
    }
  }
}

TEST(CompressionFit, AQuarterOfManyMayBeAnything) {
  std::mt19937_64 random(2);
  const CompressionCost line = {0.2, 0.3};
  for (int i = 0; i < 100; ++i) {
    std::vector<CostSample> samples = SamplesOf(line, 40);
    std::normal_distribution<double> noise(1, 0.01);
    for (CostSample& sample : samples) sample.y *= noise(random);
    for (int k = 0; k < 10; ++k) {
      samples[random() % 40].y *= 1 + static_cast<double>(random() % 50);
    }
    const CompressionCost fit = FitCost(samples);
    EXPECT_NEAR(fit.a, line.a, 0.02);
    EXPECT_NEAR(fit.b, line.b, 0.04);
  }
}

}  // namespace
}  // namespace tidepool::tool
