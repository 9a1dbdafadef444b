// SPDX-License-Identifier: Apache-2.0
// Tests of the worker pool.
#include "lib/copies/zvc/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "tests/copies/zvc/buffers.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace {

using zvc::WorkerPool;

TEST(WorkerPool, DoesWhatWasSubmittedBeforeItEnds) {
  for (const int threads : {0, 1, 4}) {
    std::atomic<int> done = 0;
    {
      const auto pool = WorkerPool::Create(threads);
      ASSERT_TRUE(pool.ok());
      EXPECT_EQ((*pool)->threads(), threads);
      for (int i = 0; i < 100; ++i) (*pool)->Submit([&done] { ++done; });
    }
    EXPECT_EQ(done, 100);
  }
}

TEST(WorkerPool, SharesWorkWithItsCaller) {
  const auto pool = WorkerPool::Create(3);
  ASSERT_TRUE(pool.ok());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> next = 0;
    std::vector<int> taken(50);
    (*pool)->RunWithAll([&] {
      for (int i = next++; i < 50; i = next++) ++taken[i];
    });
    EXPECT_EQ(taken, std::vector<int>(50, 1));
  }
}

TEST(WorkerPool, UsesAllThreadsThatAreFree) {
  const auto pool = WorkerPool::Create(3);
  ASSERT_TRUE(pool.ok());
  std::latch all(4);
  (*pool)->RunWithAll([&all] { all.arrive_and_wait(); });
  EXPECT_TRUE(all.try_wait());
}

// The pool's only thread is busy until the caller has finished the work alone.
TEST(WorkerPool, WaitsForNobodyWhoHasNotBegun) {
  const auto pool = WorkerPool::Create(1);
  ASSERT_TRUE(pool.ok());
  std::latch is_done(1);
  (*pool)->Submit([&is_done] { is_done.wait(); });
  int runs = 0;
  (*pool)->RunWithAll([&runs] { ++runs; });
  EXPECT_EQ(runs, 1);
  is_done.count_down();
}

TEST(Codec, ServesManyCallersAtOnce) {
  const auto codec = ZeroValueCodec::Create({.threads = 3});
  ASSERT_TRUE(codec.ok());
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&codec, caller] {
      std::mt19937_64 random(caller);
      const slow::Bytes input = RandomInput(600000, 4, 0.3, Values::kRelu, random);
      slow::Bytes stream(ZeroValueBound(input.size()));
      slow::Bytes output(input.size());
      for (int round = 0; round < 10; ++round) {
        const auto bytes = (*codec)->Compress(input, absl::MakeSpan(stream));
        ASSERT_TRUE(bytes.ok());
        const auto compressed = absl::MakeConstSpan(stream).subspan(0, *bytes);
        ASSERT_TRUE((*codec)->Decompress(compressed, absl::MakeSpan(output)).ok());
        ASSERT_EQ(output, input);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace tidepool
