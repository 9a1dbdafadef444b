// SPDX-License-Identifier: Apache-2.0
// PoolOptions::exact_placement: with several streams, every offset is the one that a replay
// predicts.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/temporary_files.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

constexpr std::int64_t kPoolBytes = 64 * kMiB;

class ExactPlacementTest : public PoolFixture {
 protected:
  // Serves random requests on four streams. Each block is freed on the stream that took it, and
  // the streams have work, so that a pool without the option prefers blocks that need no wait.
  std::vector<std::int64_t> Serve(Pool& pool) {
    std::mt19937_64 random(7);
    std::vector<Stream> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(NewStream());
    std::vector<std::pair<void*, Stream>> live;
    std::vector<std::int64_t> offsets;
    for (int i = 0; i < 4000; ++i) {
      if (live.size() > 60 || (!live.empty() && random() % 2 == 0)) {
        std::swap(live[random() % live.size()], live.back());
        EXPECT_TRUE(pool.Free(live.back().first, live.back().second).ok());
        live.pop_back();
        continue;
      }
      const Stream stream = streams[random() % streams.size()];
      const std::size_t bytes = 1 + random() % (std::size_t{1} << (9 + random() % 10));
      void* const address = pool.Allocate(bytes, stream).value();
      EXPECT_TRUE(device_->CallHost(stream, [] {}).ok());
      offsets.push_back(pool.OffsetOf(address));
      live.emplace_back(address, stream);
    }
    for (const auto& [address, stream] : live) EXPECT_TRUE(pool.Free(address, stream).ok());
    return offsets;
  }
  PoolOptions Options(const std::string& policy) const {
    return {.initial_bytes = kPoolBytes,
            .max_bytes = kPoolBytes,
            .placement = policy,
            .exact_placement = true};
  }
  // Records the requests, and returns the offsets that the replay predicts for them.
  std::vector<std::int64_t> Predict(const std::string& policy) {
    {
      const auto recorder = Recorder::Create({.path = path_}).value();
      PoolOptions options = Options(policy);
      options.recorder = recorder.get();
      Serve(*NewPool(options));
      EXPECT_TRUE(recorder->Close().ok());
    }
    const Trace trace = ReadTrace(path_).value();
    const auto placement = MakePlacementPolicy(policy).value();
    return Replay(trace, *placement, {.pool_bytes = kPoolBytes, .keep_offsets = true})
        .value()
        .offsets;
  }

  const std::string path_ = TemporaryFile("exact.tide");
};

TEST_F(ExactPlacementTest, OffsetsAreThoseOfTheReplay) {
  for (const std::string& policy : PlacementPolicyNames()) {
    if (policy == "planned") continue;  // it places by plans
    SCOPED_TRACE(policy);
    EXPECT_EQ(Serve(*NewPool(Options(policy))), Predict(policy));
  }
}

}  // namespace
}  // namespace tidepool
