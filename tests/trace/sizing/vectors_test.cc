// SPDX-License-Identifier: Apache-2.0
// Known answers: test vectors computed by other programs, and the request sequences of the vDNN++
// modes.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/shared_files.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using testing::Json;
using testing::SharedFile;

// No answer depends on the clock.
const MinimumPoolOptions kUnlimited = {.time_limit_seconds =
                                           std::numeric_limits<double>::infinity()};

std::string PolicyName(const std::string& short_name) {
  if (short_name == "bestfit") return "best-fit";
  if (short_name == "highend") return "high-end-offload";
  if (short_name == "exactfirst") return "exact-fit-first";
  return "first-fit";
}

Trace ToTrace(const nlohmann::json& operations) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  for (const nlohmann::json& operation : operations) {
    const std::string id = operation[1].dump();
    if (operation[0] == "a") {
      const Hint hint = operation[3] == "high" ? Hint::kOffloadable : Hint::kResident;
      EXPECT_TRUE(builder.Allocate(id, operation[2], hint, "", 0).ok());
    } else {
      EXPECT_TRUE(builder.Free(id, "", 0));
    }
  }
  return builder.Build();
}

TEST(Vectors, ReplaysAndRestartSearches) {
  TIDEPOOL_SKIP_WITHOUT(SharedFile("vectors/alloc.json"));
  int replays = 0;
  int searches = 0;
  for (const nlohmann::json& vector : Json(SharedFile("vectors/alloc.json"))) {
    SCOPED_TRACE(vector["name"]);
    const Trace trace = ToTrace(vector["ops"]);
    std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(PolicyName(vector["policy"]));
    if (vector["kind"] == "replay") {
      ++replays;
      const auto result =
          Replay(trace, *policy, {.pool_bytes = vector["capacity"], .keep_offsets = true});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->offsets, vector["expect"]["addresses"].get<std::vector<std::int64_t>>());
    } else {
      ++searches;
      const auto result = MinimumPool(trace, *policy, kUnlimited);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->pool_bytes, vector["expect"]["pool"]);
      EXPECT_EQ(result->attempts, vector["expect"]["runs"]);
      EXPECT_EQ(MeasureLoad(trace, 512)->peak_live_bytes, vector["expect"]["aggregate"]);
    }
  }
  EXPECT_GT(replays, 0);
  EXPECT_GT(searches, 0);
}

TEST(Vectors, ExactPools) {
  TIDEPOOL_SKIP_WITHOUT(SharedFile("vectors/exact_pool.json"));
  for (const nlohmann::json& vector : Json(SharedFile("vectors/exact_pool.json"))) {
    SCOPED_TRACE(vector["name"]);
    const Trace trace = ToTrace(vector["ops"]);
    std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(PolicyName(vector["policy"]));
    const auto result = MinimumPool(trace, *policy, kUnlimited);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->exact_pool_bytes, vector["expect"]["exact_pool"].get<std::int64_t>());
    EXPECT_EQ(result->serves_all_larger, vector["expect"]["serves_all_larger"].get<bool>());
    EXPECT_EQ(MeasureLoad(trace, 512)->peak_live_bytes, vector["expect"]["peak_live"]);
  }
}

TEST(Vectors, RequestSequencesOfTheVdnnppModes) {
  TIDEPOOL_SKIP_WITHOUT(SharedFile("traces/vdnnpp/index.json"));
  for (const nlohmann::json& row : Json(SharedFile("traces/vdnnpp/index.json"))) {
    SCOPED_TRACE(row["file"]);
    const auto trace = ReadTrace(SharedFile("traces/vdnnpp/" + row["file"].get<std::string>()));
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(MeasureLoad(*trace, 512)->peak_live_bytes, row["aggregate"]);
    for (const std::string name : {"bestfit", "highend", "exactfirst"}) {
      SCOPED_TRACE(name);
      std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(PolicyName(name));
      const auto result = MinimumPool(*trace, *policy, kUnlimited);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->pool_bytes, row[name + "_pool"]);
      if (row.contains(name + "_runs")) {
        EXPECT_EQ(result->attempts, row[name + "_runs"]);
      }
      ASSERT_TRUE(result->exact_pool_bytes.has_value());
      EXPECT_LE(*result->exact_pool_bytes, result->pool_bytes);
    }
  }
}

}  // namespace
}  // namespace tidepool
