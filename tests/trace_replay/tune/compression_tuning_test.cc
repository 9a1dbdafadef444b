// SPDX-License-Identifier: Apache-2.0
// Tests the conclusions of the tuner from measurements of invented machines.
#include "trace_replay/tune/compression_tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tidepool::tool {
namespace {

const std::vector<double> kDensities = {0, 0.25, 0.5, 0.75, 1};
constexpr std::int64_t kBytes = 64 << 20;

struct Machine {
  CompressionCosts costs = {{0.1, 0.08}, {0.12, 0.06}, 0.85};
  double slot_ns = 3000;
  // More threads gain no speed.
  int cores = 4;
};

// Returns measurements that agree exactly with the model.
WordMeasurement MeasurementOf(const Machine& machine, ZeroValueWord word, int most_threads) {
  WordMeasurement measured;
  measured.word = word;
  for (const CompressionSetting& setting : SettingsFor(kDensities, most_threads, kBytes)) {
    const double ratio = PlainRatio(word, setting.density);
    const double slower = std::max(1.0, static_cast<double>(setting.threads) / machine.cores);
    const double slot = machine.slot_ns / static_cast<double>(setting.chunk_bytes);
    const auto ns = [&](const CompressionCost& cost) {
      return slower * (cost.a + cost.b * ratio + slot);
    };
    measured.measurement.times.push_back(
        {setting, setting.density,
         setting.density * machine.costs.packed_share + 1.0 / (8 * static_cast<int>(word)) + 0.0049,
         ns(machine.costs.compress), ns(machine.costs.decompress), 0.2});
  }
  measured.measurement.rounds = 1;
  return measured;
}

CompressionProfile Processors(int processors) {
  CompressionProfile profile;
  profile.processors = processors;
  return profile;
}

CompressionProfile ProfileOfMachine(const Machine& machine, int most_threads,
                                    std::optional<double> link = std::nullopt) {
  return ProfileFrom({MeasurementOf(machine, ZeroValueWord::k32Bits, most_threads),
                      MeasurementOf(machine, ZeroValueWord::k16Bits, most_threads)},
                     kDensities, kBytes, link, Processors(machine.cores));
}

TEST(CompressionTuning, ThreadsThatTakeTurnsAreNoFaster) {
  // The measured time of each thread looks as if it had a processor of its own.
  const Machine machine = {.cores = 64};
  const WordMeasurement measured = MeasurementOf(machine, ZeroValueWord::k32Bits, 64);
  const auto profile_of = [&](int processors, std::int64_t bytes) {
    return ProfileFrom({measured}, kDensities, bytes, std::nullopt, Processors(processors));
  };
  const CompressionProfile few_processors = profile_of(2, kBytes);
  EXPECT_EQ(few_processors.speedups.size(), 64);
  EXPECT_DOUBLE_EQ(few_processors.speedups.back(), 2);
  EXPECT_EQ(few_processors.threads, 2);
  // The measurement had pieces of 1 MiB.
  const CompressionProfile few_pieces = profile_of(64, 3 << 20);
  EXPECT_DOUBLE_EQ(few_pieces.speedups.back(), 3);
  EXPECT_EQ(few_pieces.threads, 3);
}

TEST(CompressionTuning, FindsTheMachine) {
  const Machine machine;
  const CompressionProfile profile = ProfileOfMachine(machine, 8);
  EXPECT_TRUE(CheckCompressionProfile(profile).ok());
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    const CompressionCosts& costs = profile.CostsOf(word);
    EXPECT_NEAR(costs.compress.a, machine.costs.compress.a, 1e-3);
    EXPECT_NEAR(costs.compress.b, machine.costs.compress.b, 1e-3);
    EXPECT_NEAR(costs.decompress.a, machine.costs.decompress.a, 1e-3);
    EXPECT_NEAR(costs.decompress.b, machine.costs.decompress.b, 1e-3);
    EXPECT_NEAR(costs.packed_share, 0.85, 1e-3);
  }
  EXPECT_NEAR(profile.slot_ns, machine.slot_ns, 30);
  EXPECT_NEAR(profile.memcpy_bytes_per_second, 5e9, 1);
  EXPECT_EQ(profile.threads, 4);
  ASSERT_EQ(profile.speedups.size(), 8);
  EXPECT_NEAR(profile.speedups[2], 3, 1e-9);
  EXPECT_NEAR(profile.speedups[7], 4, 1e-9);
  // 3 % of 0.17 ns a byte is 3,000 ns a slot at about 600 KB; 1 MiB is the fastest.
  EXPECT_EQ(profile.chunk_bytes, 512 << 10);
}

TEST(CompressionTuning, ALinkNeedsOnlySoManyThreads) {
  const Machine machine;
  // 0.154 ns a byte at density 0.5, on top of 0.006 of a slot.
  EXPECT_EQ(ProfileOfMachine(machine, 8, 4e9).threads, 1);
  EXPECT_EQ(ProfileOfMachine(machine, 8, 12e9).threads, 2);
  EXPECT_EQ(ProfileOfMachine(machine, 8, 100e9).threads, 4);
}

TEST(CompressionTuning, WhatWasNotMeasuredStays) {
  CompressionProfile otherwise;
  otherwise.words16 = {{7, 8}, {9, 10}, 0.5};
  otherwise.machine = "here";
  const CompressionProfile profile =
      ProfileFrom({MeasurementOf(Machine(), ZeroValueWord::k32Bits, 1)}, kDensities, kBytes,
                  std::nullopt, otherwise);
  EXPECT_EQ(profile.words16.compress.a, 7);
  EXPECT_EQ(profile.machine, "here");
  EXPECT_EQ(profile.speedups, std::vector<double>{1});
}

TEST(CompressionTuning, Knees) {
  EXPECT_EQ(KneeOf({1}), 1);
  EXPECT_EQ(KneeOf({1, 1.4}), 1);
  EXPECT_EQ(KneeOf({1, 1.5}), 2);
  EXPECT_EQ(KneeOf({1, 2, 3, 3.2, 3.3}), 3);
  EXPECT_EQ(KneeOf({1, 1.2, 3, 3.2}), 3);  // a bad measurement at the start
}

TEST(CompressionTuning, StreamingPaysFromFivePercentOn) {
  const BufferTimes cached = {.compress_ns = 0.2, .decompress_ns = 0.22};
  EXPECT_TRUE(StreamingPays({.cached = cached, .streaming = {0.22, 0.18}}));
  EXPECT_FALSE(StreamingPays({.cached = cached, .streaming = {0.22, 0.19}}));
  EXPECT_FALSE(StreamingPays({.cached = cached, .streaming = cached}));
}

TEST(CompressionTuning, MeasuresBothKindsOfStores) {
  MeasurementOptions options;
  options.bytes = 1 << 20;
  options.most_rounds = 1;
  const auto stores = MeasureStores(0.5, options);
  ASSERT_TRUE(stores.ok()) << stores.status();
  EXPECT_NEAR(stores->density, 0.5, 0.01);
  for (const BufferTimes& times : {stores->cached, stores->streaming}) {
    EXPECT_GT(times.compress_ns, 0);
    EXPECT_GT(times.decompress_ns, 0);
  }
}

TEST(CompressionTuning, SettingsCoverWhatIsAskedForOnce) {
  for (const int threads : {1, 2, 7, 64, 256}) {
    for (const std::int64_t bytes : {std::int64_t{64} << 10, kBytes}) {
      const auto settings = SettingsFor(kDensities, threads, bytes);
      int most = 0;
      for (std::size_t i = 0; i < settings.size(); ++i) {
        EXPECT_LE(settings[i].chunk_bytes, bytes);
        EXPECT_EQ(std::count(settings.begin(), settings.end(), settings[i]), 1);
        most = std::max(most, settings[i].threads);
      }
      EXPECT_EQ(most, threads);
      EXPECT_LE(settings.size(), 35);
    }
  }
  EXPECT_EQ(SettingsFor({0.9}, 1, 64 << 10).size(), 1);
}

// Compares with a query of the model for each hundredth.
TEST(CompressionTuning, LinksAreAnsweredByTheModel) {
  CompressionProfile profile = ProfileOfMachine(Machine(), 4);
  profile.processors = 8;
  for (const double gigabytes : {1.0, 8.0, 16.0, 20.0, 24.0, 28.0, 32.0, 64.0}) {
    const double link = gigabytes * 1e9;
    const LinkAnswer answer = AnswerForLink(profile, ZeroValueWord::k32Bits, 0.5, link);
    double highest = -1;
    for (int i = 0; i <= 100; ++i) {
      const double density = i / 100.0;
      constexpr std::int64_t kLarge = std::int64_t{1} << 40;
      const double raw = RawSeconds(kLarge, link);
      const auto seconds = [&](TransferDirection direction) {
        return TransferSeconds(profile, kLarge, ZeroValueWord::k32Bits, density, direction, link,
                               profile.threads);
      };
      if (std::max(seconds(TransferDirection::kOffload), seconds(TransferDirection::kPrefetch)) <=
          raw * (1 + 1e-5)) {
        highest = density;
      }
    }
    EXPECT_EQ(answer.in_time_up_to.value_or(-1), highest) << gigabytes;
    EXPECT_LE(answer.pays_up_to.value_or(-1), highest);
    EXPECT_LE(answer.cpu_share, 4.0 / 8 + 1e-9);
    EXPECT_GT(answer.cpu_share, 0);
    EXPECT_EQ(answer.threads_to_keep_up.has_value(), highest >= 0.5);
  }
  // Input without zeros saves no memory when words keep all of their bits.
  profile.words32.packed_share = 1;
  const LinkAnswer slow = AnswerForLink(profile, ZeroValueWord::k32Bits, 0.5, 1e9);
  EXPECT_EQ(slow.in_time_up_to, 1);
  EXPECT_NEAR(*slow.pays_up_to, 0.91, 0.011);
}

}  // namespace
}  // namespace tidepool::tool
