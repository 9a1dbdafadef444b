// SPDX-License-Identifier: Apache-2.0
// Settings in the syntax of PYTORCH_CUDA_ALLOC_CONF: values, limits and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/sizes.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto settings = ParseCachingAllocatorSettings(text);
  EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(settings.status().message());
}

TEST(CachingAllocatorSettings, AreDefaultsWhenEmpty) {
  EXPECT_EQ(*ParseCachingAllocatorSettings(""), CachingAllocatorSettings());
  EXPECT_EQ(*ParseCachingAllocatorSettings(" "), CachingAllocatorSettings());
}

TEST(CachingAllocatorSettings, ReadEveryKey) {
  const auto settings = ParseCachingAllocatorSettings(
      "expandable_segments:True, max_split_size_mb:128,max_non_split_rounding_mb:30,"
      "large_segment_size_mb:12,garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,"
      "roundup_power2_divisions:4,backend:native,pinned_use_background_threads:True");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->expandable_segments);
  EXPECT_EQ(settings->max_split_bytes, 128 * kMiB);
  EXPECT_EQ(settings->max_non_split_rounding_bytes, 30 * kMiB);
  EXPECT_EQ(settings->large_segment_bytes, 12 * kMiB);
  EXPECT_EQ(settings->garbage_collection_threshold, 0.8);
  EXPECT_EQ(settings->memory_fraction, 0.5);
  EXPECT_THAT(settings->roundup_power2_divisions, ::testing::Each(4));
}

TEST(CachingAllocatorSettings, ChangeOnlyGivenKeys) {
  CachingAllocatorSettings base;
  base.max_split_bytes = 64 * kMiB;
  base.padding_bytes = 32;
  const auto settings = ParseCachingAllocatorSettings("expandable_segments:True", base);
  base.expandable_segments = true;
  EXPECT_EQ(*settings, base);
}

// Entry i stands for 2^i MiB. The first size of the list also holds for smaller ones, and ">" for
// all sizes above the last one.
TEST(CachingAllocatorSettings, ReadListsOfDivisions) {
  EXPECT_THAT(ParseCachingAllocatorSettings("roundup_power2_divisions:[4:2,16:8,>:1]")
                  ->roundup_power2_divisions,
              ElementsAre(2, 2, 2, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(ParseCachingAllocatorSettings(
                  "roundup_power2_divisions:[256:1,512:2],expandable_segments:True")
                  ->roundup_power2_divisions,
              ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ParseCachingAllocatorSettings("roundup_power2_divisions:[1048576:2]")
                  ->roundup_power2_divisions,
              ElementsAre(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2));
}

TEST(CachingAllocatorSettings, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(CachingAllocatorSettingsText({}), "");
  for (const std::string text :
       {"expandable_segments:True", "max_split_size_mb:128,max_non_split_rounding_mb:30",
        "large_segment_size_mb:12,garbage_collection_threshold:0.8,per_process_memory_fraction:0.5",
        "roundup_power2_divisions:[1:4,2:0,4:0,8:0,16:0,32:0,64:0,128:0,256:0,512:0,1024:0,2048:0,"
        "4096:0,8192:0,16384:0,32768:8]"}) {
    EXPECT_EQ(CachingAllocatorSettingsText(*ParseCachingAllocatorSettings(text)), text);
  }
  CachingAllocatorSettings padded;
  padded.padding_bytes = 32;
  EXPECT_EQ(CachingAllocatorSettingsText(padded), "padding:32");
}

TEST(CachingAllocatorSettings, NameTheKeyAndTheValueInErrors) {
  EXPECT_THAT(ErrorOf("max_split_size:20"), HasSubstr("unknown key 'max_split_size'"));
  EXPECT_THAT(ErrorOf("max_split_size_mb"), HasSubstr("'max_split_size_mb' has no value"));
  EXPECT_THAT(ErrorOf(","), HasSubstr("'' has no value"));
  EXPECT_THAT(ErrorOf("max_split_size_mb:many"), HasSubstr("max_split_size_mb: 'many'"));
  EXPECT_THAT(ErrorOf("max_split_size_mb:19"), HasSubstr("19 MiB, expected 20 to"));
  EXPECT_THAT(ErrorOf("max_non_split_rounding_mb:2"), HasSubstr("expected 20 to"));
  EXPECT_THAT(ErrorOf("large_segment_size_mb:1"), HasSubstr("expected 10 to 1024 MiB"));
  EXPECT_THAT(ErrorOf("garbage_collection_threshold:1.5"), HasSubstr("'1.5'"));
  EXPECT_THAT(ErrorOf("garbage_collection_threshold:1.0"), HasSubstr("between 0 and 1"));
  EXPECT_THAT(ErrorOf("garbage_collection_threshold:nan"), HasSubstr("'nan'"));
  EXPECT_THAT(ErrorOf("per_process_memory_fraction:0"), HasSubstr("'0'"));
  EXPECT_THAT(ErrorOf("expandable_segments:true"), HasSubstr("expected True or False"));
  EXPECT_THAT(ErrorOf("backend:cudaMallocAsync"), HasSubstr("'cudaMallocAsync'"));
  for (const std::string divisions : {"3", "-2", "[", "[4", "[4:3]", "[3:4]", "[0:2]", "[4]"}) {
    EXPECT_THAT(ErrorOf("roundup_power2_divisions:" + divisions),
                HasSubstr("roundup_power2_divisions"));
  }
}

// Damaged texts are errors or settings within their limits, and never crash.
TEST(CachingAllocatorSettings, SurviveDamage) {
  const std::string text =
      "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8],"
      "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,large_segment_size_mb:20";
  const std::string alphabet = "[],:>0123456789-. eTrue";
  std::mt19937 random(1);
  const Trace trace = TraceBuilder(TraceFormat::kNative).Build();
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (unsigned j = 0; j <= random() % 4; ++j) {
      const std::size_t at = random() % damaged.size();
      if (random() % 2 == 0) {
        damaged.erase(at, random() % 20);
        damaged += 'x';
      } else {
        damaged[at] = alphabet[random() % alphabet.size()];
      }
    }
    const auto settings = ParseCachingAllocatorSettings(damaged);
    if (settings.ok()) {
      EXPECT_TRUE(ReplayCaching(trace, {.settings = *settings}).ok()) << damaged;
    }
  }
}

TEST(CachingAllocatorSettings, AreCheckedBeforeAReplay) {
  const Trace trace = TraceBuilder(TraceFormat::kNative).Build();
  CachingReplayOptions options;
  EXPECT_TRUE(ReplayCaching(trace, options).ok());
  options.memory_bytes = kMostCachingMemory + 1;
  EXPECT_FALSE(ReplayCaching(trace, options).ok());
  options.memory_bytes = -1;
  EXPECT_FALSE(ReplayCaching(trace, options).ok());
  options = {};
  options.settings.large_segment_bytes = 0;
  EXPECT_FALSE(ReplayCaching(trace, options).ok());
  EXPECT_FALSE(MinimumCachingMemory(trace, options.settings, {}).ok());
  options = {};
  options.settings.padding_bytes = -1;
  EXPECT_FALSE(ReplayCaching(trace, options).ok());
  options = {};
  options.settings.roundup_power2_divisions[3] = 5;
  EXPECT_FALSE(ReplayCaching(trace, options).ok());
}

}  // namespace
}  // namespace tidepool
