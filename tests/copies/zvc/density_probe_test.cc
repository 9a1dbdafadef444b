// SPDX-License-Identifier: Apache-2.0
// Tests of the density probe against a count of all words: exact for small buffers, and within the
// stated error, as often as stated, for large ones.
#include "tidepool/copies/density_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/copies/zvc/buffers.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// Counts all words. Zeros complete the last word.
double CountedDensity(absl::Span<const std::byte> buffer, ZeroValueWord word) {
  const std::size_t word_bytes = static_cast<std::size_t>(word);
  std::size_t words = 0;
  std::size_t nonzero = 0;
  for (std::size_t at = 0; at < buffer.size(); at += word_bytes) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, buffer.data() + at, std::min(word_bytes, buffer.size() - at));
    ++words;
    nonzero += bits != 0 ? 1 : 0;
  }
  return words == 0 ? 0 : static_cast<double>(nonzero) / static_cast<double>(words);
}

// Returns a buffer with words that are not zero where `is_set` returns true.
Bytes Filled(std::size_t bytes, ZeroValueWord word,
             const std::function<bool(std::size_t)>& is_set) {
  Bytes buffer(bytes);
  const std::size_t word_bytes = static_cast<std::size_t>(word);
  for (std::size_t at = 0; at < bytes; at += word_bytes) {
    const std::uint32_t bits = is_set(at / word_bytes) ? 0x80008000U : 0;  // includes -0.0
    std::memcpy(buffer.data() + at, &bits, std::min(word_bytes, bytes - at));
  }
  return buffer;
}

DensityEstimate Probe(absl::Span<const std::byte> buffer, const DensityProbeOptions& options) {
  const auto estimate = ProbeDensity(buffer, options);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.value_or(DensityEstimate());
}

TEST(DensityProbe, CountsSmallBuffersWhole) {
  std::mt19937_64 random(1);
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    for (std::size_t bytes = 0; bytes < 400; ++bytes) {
      GuardedBuffer buffer(Filled(bytes, word, [&](std::size_t) { return random() % 3 == 0; }),
                           bytes % 2 == 0);
      const DensityEstimate estimate = Probe(buffer.span(), {.word = word, .lines = 64});
      EXPECT_EQ(estimate.density, CountedDensity(buffer.span(), word)) << bytes;
      EXPECT_EQ(estimate.error, 0);
      EXPECT_TRUE(estimate.is_exact);
      const std::size_t word_bytes = static_cast<std::size_t>(word);
      EXPECT_EQ(estimate.counted_words, (bytes + word_bytes - 1) / word_bytes);
    }
  }
}

TEST(DensityProbe, LooksOnlyAtTheBuffer) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) {
    const std::size_t bytes = 64 * 256 + random() % 4096;
    const auto word = i % 2 == 0 ? ZeroValueWord::k16Bits : ZeroValueWord::k32Bits;
    GuardedBuffer buffer(Filled(bytes, word, [](std::size_t) { return true; }), i % 3 == 0);
    // An incomplete last word counts as a word.
    const DensityEstimate estimate = Probe(buffer.span(), {.word = word, .lines = 64});
    EXPECT_NEAR(estimate.density, CountedDensity(buffer.span(), word), 1e-12);
  }
}

TEST(DensityProbe, SameSeedSameAnswer) {
  std::mt19937_64 random(3);
  const Bytes buffer =
      Filled(1 << 20, ZeroValueWord::k32Bits, [&](std::size_t) { return random() % 2 == 0; });
  const double first = Probe(buffer, {.seed = 7}).density;
  EXPECT_EQ(Probe(buffer, {.seed = 7}).density, first);
  EXPECT_NE(Probe(buffer, {.seed = 8}).density, first);
}

TEST(DensityProbe, AsManyLinesAsAskedFor) {
  const Bytes buffer(1 << 20);
  for (const int lines : {64, 100, 1024, 4095}) {
    const DensityEstimate estimate = Probe(buffer, {.lines = lines});
    // The ends add less than a line each.
    EXPECT_GE(estimate.counted_words, lines * 16);
    EXPECT_LE(estimate.counted_words, lines * 16 + 31);
    EXPECT_FALSE(estimate.is_exact);
  }
  EXPECT_TRUE(Probe(buffer, {.lines = 4096}).is_exact);
}

// Buffers with more or less representative samples.
struct Pattern {
  std::string name;
  std::function<bool(std::size_t word, std::mt19937_64& random)> is_set;
  double most_error;  // with 1,024 lines of 32-bit words
};

const std::vector<Pattern>& Patterns() {
  static const std::vector<Pattern> kPatterns = {
      {"uniform", [](std::size_t, std::mt19937_64& r) { return r() % 2 == 0; }, 0.012},
      {"sparse", [](std::size_t, std::mt19937_64& r) { return r() % 50 == 0; }, 0.006},
      {"clustered",  // runs of about 300 words
       [set = false](std::size_t, std::mt19937_64& r) mutable {
         if (r() % 300 == 0) set = !set;
         return set;
       },
       0.035},
      {"channels",  // channels of 3,025 words, some dense, some empty
       [](std::size_t word, std::mt19937_64&) { return word / 3025 * 7 % 5 < 2; }, 0.035},
      {"pages", [](std::size_t word, std::mt19937_64&) { return word / 1024 % 2 == 0; }, 0.035},
      {"stripes", [](std::size_t word, std::mt19937_64&) { return word / 16 % 2 == 0; }, 0.035},
      {"rare", [](std::size_t word, std::mt19937_64&) { return word / 16 % 1000 == 0; }, 0.010},
      {"one part", [](std::size_t word, std::mt19937_64&) { return word < 3000; }, 0.010},
      {"zeros", [](std::size_t, std::mt19937_64&) { return false; }, 0.003},
      {"dense", [](std::size_t, std::mt19937_64&) { return true; }, 0.003},
  };
  return kPatterns;
}

TEST(DensityProbe, IsWithinItsErrorAsOftenAsItSays) {
  constexpr int kSeeds = 400;
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    for (const int lines : {64, 1024}) {
      for (const Pattern& pattern : Patterns()) {
        std::mt19937_64 random(4);
        auto is_set = pattern.is_set;
        const Bytes buffer = Filled((std::size_t{3} << 20) + 5, word,
                                    [&](std::size_t at) { return is_set(at, random); });
        const double density = CountedDensity(buffer, word);
        int within = 0;
        double sum = 0;
        for (int seed = 0; seed < kSeeds; ++seed) {
          const DensityEstimate estimate = Probe(
              buffer, {.word = word, .lines = lines, .seed = static_cast<std::uint64_t>(seed)});
          within += std::abs(estimate.density - density) <= estimate.error ? 1 : 0;
          sum += estimate.density;
          if (lines == 1024) {
            EXPECT_LE(estimate.error, pattern.most_error) << pattern.name;
          }
        }
        EXPECT_GE(within, kSeeds * 95 / 100) << pattern.name << " " << lines;
        // No bias: the mean of many estimates is within three of its standard deviations.
        EXPECT_NEAR(sum / kSeeds, density, 1.5 / std::sqrt(lines * kSeeds)) << pattern.name;
      }
    }
  }
}

TEST(DensityProbe, RefusesBadOptions) {
  const Bytes buffer(100);
  const auto error_of = [&](const DensityProbeOptions& options) {
    const auto estimate = ProbeDensity(buffer, options);
    EXPECT_EQ(estimate.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(estimate.status().message());
  };
  EXPECT_THAT(error_of({.word = static_cast<ZeroValueWord>(3)}),
              HasSubstr("words of 3 bytes, expected 2 or 4"));
  for (const int lines : {-1, 0, 63, kMostProbeLines + 1}) {
    EXPECT_THAT(error_of({.lines = lines}), HasSubstr("lines, expected 64 to 1048576"));
  }
}

}  // namespace
}  // namespace tidepool
