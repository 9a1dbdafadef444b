// SPDX-License-Identifier: Apache-2.0
// Load and replay: refusals, offsets, and traces that no arena can hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Trace ParseRows(const std::string& rows) {
  const auto trace = ParseTrace("op,id,size,hint\n" + rows, "test");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *trace;
}

TEST(MeasureLoad, RoundsSizesAndFindsThePeak) {
  const Trace trace = ParseRows("a,x,1,\na,y,513,\nf,x,,\nm,step,,\na,z,512,\n");
  const auto load = MeasureLoad(trace, 512);
  EXPECT_EQ(load->peak_live_bytes, 1536);
  EXPECT_EQ(load->peak_event, 1);
  EXPECT_EQ(load->peak_live_count, 2);
  EXPECT_EQ(load->unfreed_count, 2);
  EXPECT_EQ(load->unfreed_bytes, 1536);
  EXPECT_EQ(MeasureLoad(trace, 1)->peak_live_bytes, 1025);
}

TEST(MeasureLoad, RefusesAlignmentsThatAreNoPowersOfTwo) {
  const Trace trace = ParseRows("a,x,1,\n");
  for (const std::int64_t alignment :
       {std::int64_t{0}, std::int64_t{-512}, std::int64_t{3}, std::int64_t{1} << 40}) {
    EXPECT_EQ(MeasureLoad(trace, alignment).status().code(), absl::StatusCode::kInvalidArgument)
        << alignment;
  }
}

TEST(MeasureLoad, RefusesMoreThanAnArenaCanAddress) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += "a," + std::to_string(i) + ",1125899906842624,\n";
  const auto load = MeasureLoad(ParseRows(rows), 512);
  ASSERT_EQ(load.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(load.status().message()), HasSubstr("event 7"));
}

TEST(MeasureReserved, FindsThePeakAndTheEnd) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_FALSE(MeasureReserved(builder.Build()).has_value());
  builder.Mark("begin", 0);
  for (const std::int64_t bytes : {100, 50, -150, 150, -20})
    ASSERT_TRUE(builder.Reserve({0, bytes}, "", 0).ok());
  const auto load = MeasureReserved(builder.Build());
  ASSERT_TRUE(load.has_value());
  EXPECT_EQ(load->peak_reserved_bytes, 150);
  EXPECT_EQ(load->peak_event, 2);
  EXPECT_EQ(load->reserved_bytes, 130);
}

TEST(MeasureReserved, StaysWithin64Bits) {
  TraceBuilder builder(TraceFormat::kNative);
  for (const std::int64_t bytes : {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN, std::int64_t{-5}})
    ASSERT_TRUE(builder.Reserve({0, bytes}, "", 0).ok());
  const auto load = MeasureReserved(builder.Build());
  EXPECT_EQ(load->peak_reserved_bytes, INT64_MAX);
  EXPECT_EQ(load->reserved_bytes, INT64_MIN);
}

TEST(Replay, LeavesOutWhatItRefuses) {
  const Trace trace = ParseRows("a,x,1024,\na,y,1024,\na,z,512,\nf,y,,\nf,x,,\na,w,1536,\n");
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  const auto result = Replay(trace, *policy, {.pool_bytes = 2047, .keep_offsets = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->offsets, ElementsAre(0, -1, 1024, -1));
  EXPECT_EQ(result->refused, 2);
  EXPECT_EQ(result->first_refused_event, 1);
  EXPECT_EQ(result->first_refused_bytes, 1024);
  EXPECT_EQ(result->largest_free_bytes, 512);
  EXPECT_EQ(result->high_water_bytes, 1536);
  EXPECT_EQ(result->peak_live_bytes, 1536);
}

TEST(Replay, InAPoolOfNothingRefusesEverything) {
  const Trace trace = ParseRows("a,x,1,\nf,x,,\n");
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  for (const std::int64_t pool : {0, 511}) {
    EXPECT_EQ(Replay(trace, *policy, {.pool_bytes = pool})->refused, 1);
  }
  EXPECT_FALSE(Replay(trace, *policy, {.pool_bytes = -1}).ok());
  EXPECT_FALSE(Replay(trace, *policy, {.pool_bytes = INT64_MAX}).ok());
}

}  // namespace
}  // namespace tidepool
