// SPDX-License-Identifier: Apache-2.0
// The advisor against a slow model: transfers slot by slot, sizes as the codec really makes them.
#include "tidepool/copies/compression_advisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tidepool {
namespace {

using ::testing::HasSubstr;
constexpr double kNever = std::numeric_limits<double>::infinity();

CompressionProfile ProfileOf(std::mt19937_64& random) {
  const auto number = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  CompressionProfile profile;
  profile.threads = 1 + static_cast<int>(random() % 4);
  profile.speedups = {1, 2, 3, 4};
  profile.chunk_bytes = std::int64_t{64} << (10 + random() % 5);
  profile.slot_ns = number(0, 20'000);
  for (CompressionCosts* costs : {&profile.words16, &profile.words32}) {
    *costs = {{number(0, 0.5), number(0, 0.5)}, {number(0, 0.5), number(0, 0.5)}, 1};
  }
  return profile;
}

// Each slot takes the link in turn; threads compress slots that have arrived.
double SlowOffload(const CompressionProfile& profile, double slots, double link_seconds,
                   double codec_seconds, int threads) {
  std::vector<double> free_at(static_cast<std::size_t>(threads), 0);
  double end = 0;
  for (double slot = 1; slot <= slots; ++slot) {
    double& thread = *std::min_element(free_at.begin(), free_at.end());
    thread =
        std::max(thread, slot * link_seconds) + codec_seconds * threads / Speedup(profile, threads);
    end = std::max(end, thread);
  }
  return end;
}

double SlowPrefetch(const CompressionProfile& profile, double slots, double link_seconds,
                    double codec_seconds, int threads) {
  double link = 0;
  for (double slot = 0; slot < slots; ++slot) {
    const double ready =
        (std::floor(slot / threads) + 1) * codec_seconds * threads / Speedup(profile, threads);
    link = std::max(link, ready) + link_seconds;
  }
  return link;
}

struct Expected {
  bool is_sure = true;  // nothing is so close that a slot more or less decides
  CompressionReason reason = CompressionReason::kSaves;
};

Expected Slow(const CompressionProfile& profile, const CompressionAdvisorOptions& options,
              const CompressionCandidate& candidate) {
  const double density = std::min(1.0, candidate.density + candidate.density_error);
  const int threads = options.threads == 0 ? profile.threads : options.threads;
  const double slots = static_cast<double>(candidate.bytes / profile.chunk_bytes);
  const auto slot = static_cast<double>(profile.chunk_bytes);
  const double link = slot / options.link_bytes_per_second;
  const CompressionCosts& costs = profile.CostsOf(candidate.word);
  const double ratio = PlainRatio(candidate.word, density);
  const double compress =
      (slot * (costs.compress.a + costs.compress.b * ratio) + profile.slot_ns) / 1e9;
  const double decompress =
      (slot * (costs.decompress.a + costs.decompress.b * ratio) + profile.slot_ns) / 1e9;
  const double offload = SlowOffload(profile, slots, link, compress, threads);
  const double prefetch = SlowPrefetch(profile, slots, link, decompress, threads);
  const double band = 2 * (2 * link + compress + decompress);

  Expected expected;
  const auto is_later = [&](double end, double deadline, double raw) {
    const double lateness = end - std::max(deadline, raw);
    if (std::abs(lateness) <= band) expected.is_sure = false;
    return lateness > 0;
  };
  const bool leaves_late = is_later(offload, candidate.seconds_to_leave, slots * link);
  const bool returns_late =
      is_later(offload + prefetch, candidate.seconds_until_needed, 2 * slots * link);
  // The mask and the words, in whole pieces.
  const double bits = 8.0 * static_cast<int>(candidate.word);
  const double payload = std::min(1.0, 1 / bits + density) * static_cast<double>(candidate.bytes);
  const double saved = static_cast<double>(candidate.bytes) - payload;
  const double needed = kLeastCompressionSaving * static_cast<double>(candidate.bytes);
  if (std::abs(saved - needed) <=
      static_cast<double>(64 << 10) + 0.01 * static_cast<double>(candidate.bytes)) {
    expected.is_sure = false;
  }
  if (saved < needed) {
    expected.reason = CompressionReason::kSavesTooLittle;
  } else if (leaves_late) {
    expected.reason = CompressionReason::kLeavesTooLate;
  } else if (returns_late) {
    expected.reason = CompressionReason::kReturnsTooLate;
  }
  return expected;
}

CompressionCandidate CandidateOf(std::mt19937_64& random, const CompressionProfile& profile) {
  CompressionCandidate candidate;
  candidate.bytes = profile.chunk_bytes * static_cast<std::int64_t>(20 + random() % 300);
  candidate.word = random() % 2 == 0 ? ZeroValueWord::k16Bits : ZeroValueWord::k32Bits;
  candidate.density = static_cast<double>(random() % 101) / 100;
  candidate.density_error = static_cast<double>(random() % 10) / 100;
  const auto time = [&] {
    return random() % 4 == 0 ? kNever : static_cast<double>(random() % 2000) * 1e-4;
  };
  candidate.seconds_to_leave = time();
  candidate.seconds_until_needed = time();
  return candidate;
}

CompressionAdvisorOptions OptionsOf(std::mt19937_64& random) {
  CompressionAdvisorOptions options;
  options.link_bytes_per_second = 1e9 * static_cast<double>(1 + random() % 64);
  options.threads = static_cast<int>(random() % 5);
  return options;
}

TEST(CompressionAdvisor, AgreesWithASlowModel) {
  std::mt19937_64 random(1);
  std::vector<int> counts(4, 0);
  for (int i = 0; i < 20'000; ++i) {
    const CompressionProfile profile = ProfileOf(random);
    const CompressionAdvisorOptions options = OptionsOf(random);
    const CompressionCandidate candidate = CandidateOf(random, profile);
    const Expected expected = Slow(profile, options, candidate);
    const CompressionAdvice advice =
        CompressionAdvisor::Create(profile, options).value().Advise(candidate).value();
    EXPECT_EQ(advice.compress, advice.reason == CompressionReason::kSaves);
    if (!expected.is_sure) continue;
    EXPECT_EQ(advice.reason, expected.reason) << i;
    ++counts[static_cast<std::size_t>(expected.reason)];
  }
  // Each reason was the one that counts, often.
  for (const int count : counts) EXPECT_GT(count, 200);
}

TEST(CompressionAdvisor, MoreTimeAndMoreZerosNeverSpeakAgainstIt) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 5'000; ++i) {
    const CompressionProfile profile = ProfileOf(random);
    const auto advisor = CompressionAdvisor::Create(profile, OptionsOf(random)).value();
    const CompressionCandidate candidate = CandidateOf(random, profile);
    if (!advisor.Advise(candidate).value().compress) continue;
    CompressionCandidate better = candidate;
    better.seconds_to_leave *= 1.5;
    better.seconds_until_needed *= 1.5;
    better.density *= 0.7;
    better.density_error *= 0.7;
    EXPECT_TRUE(advisor.Advise(better).value().compress);
  }
}

// The codec saves at least the advised bytes.
TEST(CompressionAdvisor, SavesAtLeastWhatItSays) {
  std::mt19937_64 random(3);
  const CompressionProfile profile;
  const auto advisor = CompressionAdvisor::Create(profile, {}).value();
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    const auto codec = ZeroValueCodec::Create({.word = word}).value();
    for (const double density : {0.0, 0.2, 0.5, 0.8, 1.0}) {
      std::vector<std::byte> buffer(1 << 20);
      const auto word_bytes = static_cast<std::size_t>(word);
      std::int64_t set = 0;
      for (std::size_t at = 0; at < buffer.size(); at += word_bytes) {
        if (static_cast<double>(random() % 1000) >= density * 1000) continue;
        const std::uint32_t bits = static_cast<std::uint32_t>(random()) | 1;
        std::memcpy(buffer.data() + at, &bits, word_bytes);
        ++set;
      }
      std::vector<std::byte> stream(ZeroValueBound(buffer.size()));
      const auto bytes =
          static_cast<std::int64_t>(codec->Compress(buffer, absl::MakeSpan(stream)).value());
      CompressionCandidate candidate;
      candidate.bytes = static_cast<std::int64_t>(buffer.size());
      candidate.word = word;
      candidate.density =
          static_cast<double>(set) / static_cast<double>(buffer.size() / word_bytes);
      const CompressionAdvice advice = advisor.Advise(candidate).value();
      EXPECT_GE(candidate.bytes - bytes, advice.saved_bytes) << density;
      // The saving is not much larger either, where words use all of their bits.
      EXPECT_LE(candidate.bytes - bytes - advice.saved_bytes, (64 << 10) + (12 << 10)) << density;
    }
  }
}

TEST(CompressionAdvisor, SaysWhatItExpects) {
  CompressionProfile profile;
  profile.words32 = {{0.1, 0.2}, {0.2, 0.2}, 1};
  profile.slot_ns = 0;
  profile.threads = 1;
  const auto advisor = CompressionAdvisor::Create(profile, {.link_bytes_per_second = 10e9}).value();
  CompressionCandidate candidate;
  candidate.bytes = 100 << 20;
  candidate.density = 0.4;
  candidate.density_error = 0.06875;  // so that the ratio is 0.5 at most
  const CompressionAdvice advice = advisor.Advise(candidate).value();
  EXPECT_TRUE(advice.compress);
  const double bytes = 100 << 20;
  EXPECT_NEAR(advice.raw_seconds, bytes / 10e9, 1e-9);
  EXPECT_NEAR(advice.offload_seconds, (bytes + (1 << 20)) * 0.2e-9, 1e-9);
  EXPECT_NEAR(advice.prefetch_seconds, (bytes + (1 << 20)) * 0.3e-9, 1e-9);
  EXPECT_NEAR(advice.core_seconds, bytes * 0.5e-9, 1e-9);
  EXPECT_EQ(advice.delay_seconds, 0);
  EXPECT_EQ(advice.most_held_bytes % (64 << 10), 0);
  EXPECT_LT(advice.least_saved_bytes, advice.saved_bytes);
  EXPECT_NEAR(static_cast<double>(advice.least_saved_bytes), bytes / 2, bytes / 100);
  candidate.seconds_until_needed = 0.03;
  const CompressionAdvice late = advisor.Advise(candidate).value();
  EXPECT_EQ(late.reason, CompressionReason::kReturnsTooLate);
  EXPECT_NEAR(late.delay_seconds, advice.offload_seconds + advice.prefetch_seconds - 0.03, 1e-9);
  EXPECT_EQ(CompressionReasonText(late.reason), "returns too late");
}

TEST(CompressionAdvisor, SmallBuffersHaveNothingToSave) {
  const auto advisor = CompressionAdvisor::Create(CompressionProfile(), {}).value();
  for (const std::int64_t bytes : {0, 1, 4096, 64 << 10}) {
    CompressionCandidate candidate;
    candidate.bytes = bytes;
    candidate.density = 0;
    const CompressionAdvice advice = advisor.Advise(candidate).value();
    EXPECT_EQ(advice.reason, CompressionReason::kSavesTooLittle) << bytes;
    EXPECT_LE(advice.least_saved_bytes, 0);
  }
}

TEST(CompressionAdvisor, RefusesWhatCannotBe) {
  const double nan = std::nan("");
  const auto options_error = [](const CompressionAdvisorOptions& options) {
    const auto advisor = CompressionAdvisor::Create(CompressionProfile(), options);
    EXPECT_EQ(advisor.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(advisor.status().message());
  };
  for (const double link : {0.0, -1.0, nan}) {
    EXPECT_THAT(options_error({.link_bytes_per_second = link}), HasSubstr("expected more than 0"));
  }
  for (const int threads : {-1, 10'000}) {
    EXPECT_THAT(options_error({.threads = threads}), HasSubstr("to 256"));
  }
  CompressionProfile profile;
  profile.threads = 0;
  EXPECT_THAT(std::string(CompressionAdvisor::Create(profile, {}).status().message()),
              HasSubstr("'threads' is 0"));

  const auto advisor = CompressionAdvisor::Create(CompressionProfile(), {}).value();
  const auto error_of = [&](const CompressionCandidate& candidate) {
    const auto advice = advisor.Advise(candidate);
    EXPECT_EQ(advice.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(advice.status().message());
  };
  for (const std::int64_t bytes : {std::int64_t{-1}, (std::int64_t{1} << 50) + 1}) {
    EXPECT_THAT(error_of({.bytes = bytes}), HasSubstr("expected 0 to 2^50"));
  }
  EXPECT_THAT(error_of({.word = static_cast<ZeroValueWord>(1)}), HasSubstr("expected 2 or 4"));
  for (const double density : {-0.1, 1.1, nan}) {
    EXPECT_THAT(error_of({.density = density}), HasSubstr("expected a share from 0 to 1"));
    EXPECT_THAT(error_of({.density_error = density}), HasSubstr("expected 0 to 1"));
  }
  EXPECT_THAT(error_of({.seconds_to_leave = nan}), HasSubstr("expected a number of seconds"));
  EXPECT_THAT(error_of({.seconds_until_needed = nan}), HasSubstr("expected a number of seconds"));
}

}  // namespace
}  // namespace tidepool
