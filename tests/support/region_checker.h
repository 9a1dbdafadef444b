// SPDX-License-Identifier: Apache-2.0
// RegionChecker: an observer that keeps its own books of a pool and its regions. It checks that no
// region serves requests while it sleeps. It has no lock, and reports calls that overlap.
#ifndef TIDEPOOL_TESTS_SUPPORT_REGION_CHECKER_H_
#define TIDEPOOL_TESTS_SUPPORT_REGION_CHECKER_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "tidepool/pool_observer.h"

namespace tidepool::testing {

class RegionChecker final : public PoolObserver {
 public:
  explicit RegionChecker(std::int64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override {
    AllocateIn("", address, bytes, hint, stream);
  }
  void AllocateIn(std::string_view region, const void* address, std::int64_t bytes, Hint /*hint*/,
                  Stream /*stream*/) override {
    const Call call(*this);
    Books& books = books_[std::string(region)];
    EXPECT_FALSE(books.is_asleep) << region;
    EXPECT_TRUE(region_of_.emplace(address, region).second);
    books.live[address] = bytes;
    books.live_bytes += bytes;
    EXPECT_LE(AwakeBytes(), budget_bytes_);
  }
  void Free(const void* address, Stream /*stream*/) override {
    const Call call(*this);
    const auto found = region_of_.find(address);
    ASSERT_NE(found, region_of_.end());
    Books& books = books_[found->second];
    books.live_bytes -= books.live[address];
    books.live.erase(address);
    region_of_.erase(found);
  }
  void Failure(std::int64_t /*bytes*/, Hint /*hint*/, Stream /*stream*/) override {}
  void FailureIn(std::string_view region, std::int64_t /*bytes*/, Hint /*hint*/,
                 Stream /*stream*/) override {
    const Call call(*this);
    ++books_[std::string(region)].failures;
  }
  void Wait(Stream /*stream*/, Stream /*awaited*/) override {}
  void Mark(std::string_view /*name*/) override {}
  void Pause(std::string_view region, SleepMode mode, Stream /*stream*/) override {
    const Call call(*this);
    Books& books = books_[std::string(region)];
    EXPECT_FALSE(books.is_asleep) << region;
    books.is_asleep = true;
    books.last_mode = mode;
    ++books.pauses;
  }
  void Resume(std::string_view region, Stream /*stream*/) override {
    const Call call(*this);
    Books& books = books_[std::string(region)];
    EXPECT_TRUE(books.is_asleep) << region;
    books.is_asleep = false;
    ++books.resumes;
    EXPECT_LE(AwakeBytes(), budget_bytes_);
  }

  struct Books {
    std::map<const void*, std::int64_t> live;  // bytes by address
    std::int64_t live_bytes = 0;               // as asked
    std::int64_t failures = 0;
    std::int64_t pauses = 0;
    std::int64_t resumes = 0;
    bool is_asleep = false;
    SleepMode last_mode = SleepMode::kHost;
  };
  // Returns the books of a region; "" is the pool.
  const Books& BooksOf(const std::string& region) { return books_[region]; }

 private:
  // A call of the observer. Gives other threads time to overlap it.
  class Call {
   public:
    explicit Call(RegionChecker& checker) : checker_(checker) {
      EXPECT_FALSE(checker_.is_called_.exchange(true)) << "calls overlap";
      for (int i = 0; i < 10; ++i) std::this_thread::yield();
    }
    ~Call() { checker_.is_called_ = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    RegionChecker& checker_;
  };

  std::int64_t AwakeBytes() const {
    std::int64_t sum = 0;
    for (const auto& [region, books] : books_) sum += books.is_asleep ? 0 : books.live_bytes;
    return sum;
  }

  const std::int64_t budget_bytes_;
  std::atomic<bool> is_called_ = false;
  std::map<std::string, Books> books_;
  std::map<const void*, std::string> region_of_;  // by address
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_REGION_CHECKER_H_
