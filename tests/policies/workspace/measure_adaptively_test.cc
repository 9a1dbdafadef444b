// SPDX-License-Identifier: Apache-2.0
// Few measurements, and the answer of all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

// Algorithms with times of fixed + each * samples ^ power, and workspaces that grow with samples.
struct GrowingKernel {
  struct Algorithm {
    double fixed, each, power;
    std::int64_t bytes, bytes_a_sample;
  };
  std::vector<Algorithm> algorithms;

  KernelTable At(std::int64_t samples) const {
    KernelTable rows;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const Algorithm& its = algorithms[i];
      rows.push_back({samples, static_cast<std::int64_t>(i),
                      its.fixed + its.each * std::pow(static_cast<double>(samples), its.power),
                      its.bytes + its.bytes_a_sample * samples});
    }
    return rows;
  }
};

// The first algorithm needs no workspace.
GrowingKernel RandomKernel(std::mt19937_64& random, std::size_t algorithms) {
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  GrowingKernel kernel;
  const bool is_straight = random() % 2 == 0;
  for (std::size_t i = 0; i < algorithms; ++i) {
    kernel.algorithms.push_back({between(1e-5, 1e-4), between(1e-5, 4e-5),
                                 is_straight ? 1 : between(0.6, 1),
                                 i == 0 ? 0 : static_cast<std::int64_t>(between(0, 20'000)),
                                 i == 0 ? 0 : static_cast<std::int64_t>(between(10, 1'000))});
  }
  return kernel;
}

struct Counted {
  std::int64_t measured = 0;
  AdaptiveAnswer answer;
};

template <typename Kernel>
Counted Ask(const Kernel& kernel, std::int64_t batch, std::int64_t limit) {
  Counted counted;
  KernelProbe probe;
  probe.measure = [&](std::int64_t samples) {
    ++counted.measured;
    return kernel.At(samples);
  };
  probe.workspaces = [&](std::int64_t samples) {
    KernelTable rows = kernel.At(samples);
    for (KernelRow& row : rows) row.seconds = 0;
    return rows;
  };
  counted.answer = MeasureAdaptively(batch, limit, probe);
  EXPECT_EQ(counted.answer.measured, counted.measured);
  return counted;
}

template <typename Kernel>
double SecondsOfAll(const Kernel& kernel, std::int64_t batch, std::int64_t limit,
                    const char* policy) {
  KernelTable table;
  const std::vector<std::int64_t> sizes = MicroBatchSizes(policy, batch).value();
  for (const std::int64_t size : sizes) {
    for (const KernelRow& row : kernel.At(size)) table.push_back(row);
  }
  return ConfigurationFront(table, sizes, batch, limit).back().seconds;
}

TEST(MeasureAdaptively, FindsTheAnswerOfAllOnMonotoneTables) {
  std::mt19937_64 random(20);
  std::int64_t measured = 0;
  std::int64_t powers = 0;
  int proved = 0;
  constexpr int kKernels = 60;
  for (int i = 0; i < kKernels; ++i) {
    const std::int64_t batch = 1 + static_cast<std::int64_t>(random() % 128);
    const GrowingKernel kernel = RandomKernel(random, 1 + random() % 8);
    const auto limit = static_cast<std::int64_t>(random() % 100'000);
    const auto sizes = static_cast<std::int64_t>(MicroBatchSizes("powerOfTwo", batch)->size());
    const Counted its = Ask(kernel, batch, limit);
    EXPECT_LE(2 * its.measured, 3 * sizes);
    EXPECT_LE(its.answer.configuration.workspace_bytes, limit);
    const double all = SecondsOfAll(kernel, batch, limit, "all");
    EXPECT_NEAR(its.answer.configuration.seconds, all, all * 1e-9) << i << " batch " << batch;
    EXPECT_LE(its.answer.lower_bound_seconds, all * (1 + 1e-9));
    measured += its.measured;
    powers += sizes;
    proved += its.answer.proved ? 1 : 0;
  }
  // The policy of powers of two measures twice as many, and finds slower answers.
  EXPECT_LT(2 * measured, powers);
  EXPECT_GT(proved, kKernels / 2);
}

// Times that grow in steps are monotone, and lie on no line. The bound holds, and so does a proof.
TEST(MeasureAdaptively, BoundsMonotoneTables) {
  struct Steps {
    KernelTable At(std::int64_t samples) const {
      KernelTable rows;
      for (const KernelRow& row : kernel.At(samples)) {
        std::mt19937_64 random(static_cast<std::uint64_t>(row.algorithm) + seed);
        double rate = 1e-4;
        double seconds = 0;
        for (std::int64_t b = 1; b <= samples; ++b) {
          // No more time a sample than before, and no less time in all.
          const double least = seconds / static_cast<double>(b);
          rate = std::uniform_real_distribution<double>(std::max(least, 0.9 * rate), rate)(random);
          seconds = rate * static_cast<double>(b);
        }
        rows.push_back({samples, row.algorithm, seconds, row.workspace_bytes});
      }
      return rows;
    }
    GrowingKernel kernel;
    std::uint64_t seed = 0;
  };
  std::mt19937_64 random(7);
  int same = 0;
  for (int i = 0; i < 40; ++i) {
    const Steps kernel = {RandomKernel(random, 3), random()};
    const auto batch = 1 + static_cast<std::int64_t>(random() % 48);
    const Counted its = Ask(kernel, batch, 15'000);
    const double all = SecondsOfAll(kernel, batch, 15'000, "all");
    const double seconds = its.answer.configuration.seconds;
    EXPECT_LE(its.answer.lower_bound_seconds, all * (1 + 1e-9));
    EXPECT_GE(seconds, all * (1 - 1e-9));
    if (its.answer.proved) {
      EXPECT_NEAR(seconds, all, all * 1e-9);
    }
    same += seconds <= all * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_EQ(same, 40);
}

// A table with noise may hide a faster size. The answer is then that of its measurements.
TEST(MeasureAdaptively, TakesTheBestThatItMeasuredElsewhere) {
  struct Noisy {
    KernelTable At(std::int64_t samples) const {
      KernelTable rows = kernel.At(samples);
      for (KernelRow& row : rows) {
        std::mt19937_64 random(static_cast<std::uint64_t>(samples * 10 + row.algorithm));
        row.seconds *= std::uniform_real_distribution<double>(0.8, 1.2)(random);
      }
      return rows;
    }
    GrowingKernel kernel;
  };
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const Noisy kernel = {RandomKernel(random, 4)};
    const Counted its = Ask(kernel, 64, 20'000);
    ASSERT_FALSE(its.answer.configuration.parts.empty());
    std::int64_t samples = 0;
    for (const KernelPart& part : its.answer.configuration.parts) samples += part.micro_batch;
    EXPECT_EQ(samples, 64);
    EXPECT_LE(2 * its.measured, 3 * 7);
    EXPECT_GE(its.answer.configuration.seconds,
              SecondsOfAll(kernel, 64, 20'000, "all") * (1 - 1e-9));
  }
}

TEST(MeasureAdaptively, HasNoPartsWhereNothingFits) {
  const GrowingKernel kernel = {{{1e-5, 1e-5, 1, 100, 1}}};
  const Counted its = Ask(kernel, 16, 50);
  EXPECT_TRUE(its.answer.configuration.parts.empty());
  const Counted whole = Ask(kernel, 16, 1000);
  EXPECT_EQ(whole.measured, 1);
  EXPECT_TRUE(whole.answer.proved);
  EXPECT_EQ(whole.answer.configuration.parts.size(), 1U);
}

}  // namespace
}  // namespace tidepool
