// SPDX-License-Identifier: Apache-2.0
// Pages of one size, against a model that is a set.
#include "tidepool/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;

TEST(PagePoolTest, RefusesOptionsOutOfRange) {
  const std::vector<PagePoolOptions> refused = {
      {},
      {.max_bytes = 64 * kKiB - 1},
      {.page_bytes = 0, .max_bytes = kMiB},
      {.page_bytes = 2048, .max_bytes = kMiB},
      {.page_bytes = 5000, .max_bytes = kMiB},
      {.page_bytes = 2 << 30, .max_bytes = std::int64_t{4} << 30},
      {.page_bytes = 4096, .max_bytes = std::numeric_limits<std::int64_t>::max()},
      {.max_bytes = kMiB, .initial_bytes = -1},
      {.max_bytes = kMiB, .initial_bytes = kMiB + 1},
      {.max_bytes = kMiB, .pages = {.huge_pages = HugePages::kRequired}},
      {.max_bytes = kMiB, .pages = {.threads = -1}},
  };
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const absl::Status status = PagePool::Create(refused[i]).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected")) << i;
  }
  // A process has fewer addresses, however much memory the system promises.
  EXPECT_TRUE(absl::IsResourceExhausted(
      PagePool::Create({.page_bytes = kMiB, .max_bytes = std::int64_t{1} << 48}).status()));
}

TEST(PagePoolTest, TouchesAtTheBeginningAndThenInSteps) {
  const auto pool =
      *pinned::CreatePagePool({.max_bytes = 4 * kMiB, .initial_bytes = kMiB + 1}, 2 * kMiB);
  EXPECT_EQ(pool->Stats().touched_pages, 17);
  std::vector<void*> pages(17);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(pages)).ok());
  EXPECT_EQ(pool->Stats().touched_pages, 17);
  std::vector<void*> more(1);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(more)).ok());
  EXPECT_EQ(pool->Stats().touched_pages, 17 + 32);
  more.resize(46);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(more)).ok()) << "to the last page";
  EXPECT_EQ(pool->Stats().touched_pages, 64);
  EXPECT_EQ(pool->Stats().used_pages, 64);
  EXPECT_EQ(pool->Stats().growths, 3);
  const absl::Status status = pool->Take(absl::MakeSpan(more).first(1));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("raise max_bytes"));
  EXPECT_EQ(pool->Stats().failures, 1);
  EXPECT_EQ(pool->Stats().peak_used_pages, 64);
}

TEST(PagePoolTest, GrowsOnlyWhereItMay) {
  const auto pool =
      *PagePool::Create({.max_bytes = 4 * kMiB, .initial_bytes = 64 * kKiB, .may_grow = false});
  std::vector<void*> pages(2);
  const absl::Status status = pool->Take(absl::MakeSpan(pages));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("set may_grow, or call Reserve"));
  EXPECT_EQ(pool->Stats().used_pages, 0);
  ASSERT_TRUE(pool->Reserve(128 * kKiB).ok());
  EXPECT_TRUE(pool->Take(absl::MakeSpan(pages)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Reserve(4 * kMiB + 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Reserve(-1)));
}

TEST(PagePoolTest, TakesBackAllOrNone) {
  const auto pool = *PagePool::Create({.max_bytes = kMiB});
  std::vector<void*> pages(4);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(pages)).ok());
  char local = 0;
  for (void* const wrong : {static_cast<void*>(&local), static_cast<void*>(nullptr), pages[0],
                            static_cast<void*>(static_cast<char*>(pages[1]) + 4096)}) {
    const absl::Status status = pool->Return({pages[0], pages[2], wrong, pages[3]});
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected"));
    EXPECT_EQ(pool->Stats().used_pages, 4);
  }
  EXPECT_TRUE(pool->Return(pages).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Return({pages[2]})));
  EXPECT_EQ(pool->Stats().used_pages, 0);
  EXPECT_EQ(pool->Stats().returns, 4);
  EXPECT_TRUE(pool->Take({}).ok());
  EXPECT_TRUE(pool->Return({}).ok());
}

TEST(PagePoolTest, GivesOutFirstWhatCameLast) {
  const auto pool = *PagePool::Create({.max_bytes = kMiB, .initial_bytes = kMiB});
  std::vector<void*> pages(3);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(pages)).ok());
  ASSERT_TRUE(pool->Return(pages).ok());
  std::vector<void*> again(1);
  ASSERT_TRUE(pool->Take(absl::MakeSpan(again)).ok());
  EXPECT_EQ(again[0], pages[2]);
}

class PagePoolModelTest : public ::testing::TestWithParam<std::int64_t> {};

INSTANTIATE_TEST_SUITE_P(PageBytes, PagePoolModelTest, ::testing::Values(4096, 65536));

TEST_P(PagePoolModelTest, DoesAsASet) {
  constexpr std::int64_t kMostPages = 64;
  const std::int64_t page_bytes = GetParam();
  std::mt19937_64 random(static_cast<std::uint64_t>(page_bytes));
  const auto pool = *pinned::CreatePagePool(
      {.page_bytes = page_bytes, .max_bytes = kMostPages * page_bytes + 5}, 4 * page_bytes);
  std::map<char*, unsigned char> live;
  std::int64_t peak = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t what = random() % 10;
    if (what < 5) {
      std::vector<void*> pages(random() % 12);
      const absl::Status status = pool->Take(absl::MakeSpan(pages));
      ASSERT_EQ(status.ok(), live.size() + pages.size() <= kMostPages) << status;
      for (void* const page : pages) {
        if (!status.ok()) break;
        const auto pattern = static_cast<unsigned char>(random());
        std::memset(page, pattern, static_cast<std::size_t>(page_bytes));
        ASSERT_TRUE(live.emplace(static_cast<char*>(page), pattern).second) << "given out twice";
      }
    } else if (what < 9) {
      std::vector<void*> pages;
      for (const auto& [page, pattern] : live) {
        if (random() % 3 != 0) continue;
        EXPECT_EQ(static_cast<unsigned char>(page[0]), pattern);
        EXPECT_EQ(static_cast<unsigned char>(page[page_bytes - 1]), pattern);
        pages.push_back(page);
      }
      ASSERT_TRUE(pool->Return(pages).ok());
      for (void* const page : pages) live.erase(static_cast<char*>(page));
    } else {
      const std::int64_t touched = pool->Stats().touched_pages;
      const auto keep = static_cast<std::int64_t>(random() % kMostPages);
      EXPECT_EQ(pool->Trim(std::numeric_limits<std::int64_t>::max()).value(), 0);
      const absl::StatusOr<std::int64_t> trimmed = pool->Trim(keep * page_bytes);
      ASSERT_TRUE(trimmed.ok());
      const auto used = static_cast<std::int64_t>(live.size());
      EXPECT_EQ(pool->Stats().touched_pages, std::min(touched, std::max(used, keep)));
      EXPECT_EQ(*trimmed, (touched - pool->Stats().touched_pages) * page_bytes);
    }
    const PagePoolStats stats = pool->Stats();
    peak = std::max(peak, static_cast<std::int64_t>(live.size()));
    ASSERT_EQ(stats.used_pages, static_cast<std::int64_t>(live.size()));
    ASSERT_EQ(stats.peak_used_pages, peak);
    ASSERT_EQ(stats.takes - stats.returns, stats.used_pages);
    ASSERT_GE(stats.touched_pages, stats.used_pages);
    ASSERT_LE(stats.touched_pages, kMostPages);
  }
}

TEST(PagePoolTest, ThreadsShareIt) {
  const auto pool = *pinned::CreatePagePool({.max_bytes = 2 * kMiB}, 128 * kKiB);
  const auto work = [&](unsigned char pattern) {
    std::vector<void*> pages(5);
    for (int i = 0; i < 300; ++i) {
      if (!pool->Take(absl::MakeSpan(pages)).ok()) continue;
      for (void* const page : pages) std::memset(page, pattern, 64 * kKiB);
      if (i % 40 == 0) {
        EXPECT_TRUE(pool->Trim().ok());
      }
      for (void* const page : pages) {
        const auto* const bytes = static_cast<unsigned char*>(page);
        EXPECT_EQ(bytes[0], pattern);
        EXPECT_EQ(bytes[64 * kKiB - 1], pattern);
      }
      EXPECT_TRUE(pool->Return(pages).ok());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned char i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->Stats().used_pages, 0);
}

}  // namespace
}  // namespace tidepool
