// SPDX-License-Identifier: Apache-2.0
// RangeChecker: an observer that compares the ranges and allocations of a pool with each other.
#ifndef TIDEPOOL_TESTS_SUPPORT_RANGE_CHECKER_H_
#define TIDEPOOL_TESTS_SUPPORT_RANGE_CHECKER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>

#include "tidepool/pool_observer.h"

namespace tidepool::testing {

class RangeChecker final : public PoolObserver {
 public:
  void Allocate(const void* address, std::int64_t bytes, Hint /*hint*/,
                Stream /*stream*/) override {
    EXPECT_TRUE(IsInside(ranges_, Key(address), bytes)) << "an allocation outside all ranges";
    EXPECT_FALSE(Overlaps(live_, Key(address), bytes)) << "allocations overlap";
    live_[Key(address)] = bytes;
  }
  void Free(const void* address, Stream /*stream*/) override {
    EXPECT_EQ(live_.erase(Key(address)), 1U);
  }
  void Failure(std::int64_t /*bytes*/, Hint /*hint*/, Stream /*stream*/) override {}
  void Wait(Stream /*stream*/, Stream /*awaited*/) override {}
  void Mark(std::string_view /*name*/) override {}
  void AddRange(const void* begin, std::int64_t bytes) override {
    EXPECT_FALSE(Overlaps(ranges_, Key(begin), bytes)) << "ranges overlap";
    ranges_[Key(begin)] = bytes;
    ++added_;
  }
  void RemoveRange(const void* begin) override {
    const auto range = ranges_.find(Key(begin));
    ASSERT_NE(range, ranges_.end()) << "no such range";
    if (!expects_live_) {
      EXPECT_FALSE(Overlaps(live_, range->first, range->second)) << "live in a removed range";
    }
    ranges_.erase(range);
  }

  // Lets ranges go with live allocations in them, as at the end of a pool.
  void ExpectLive() { expects_live_ = true; }
  std::size_t ranges() const { return ranges_.size(); }
  int added() const { return added_; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& [begin, bytes] : ranges_) sum += bytes;
    return sum;
  }

 private:
  using Spans = std::map<std::uintptr_t, std::int64_t>;  // bytes by first address

  static std::uintptr_t Key(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  static bool IsInside(const Spans& spans, std::uintptr_t begin, std::int64_t bytes) {
    const auto after = spans.upper_bound(begin);
    if (after == spans.begin()) return false;
    const auto& [first, size] = *std::prev(after);
    return static_cast<std::int64_t>(begin - first) + bytes <= size;
  }
  static bool Overlaps(const Spans& spans, std::uintptr_t begin, std::int64_t bytes) {
    const auto after = spans.upper_bound(begin);
    if (after != spans.end() && static_cast<std::int64_t>(after->first - begin) < bytes) {
      return true;
    }
    return after != spans.begin() &&
           static_cast<std::int64_t>(begin - std::prev(after)->first) < std::prev(after)->second;
  }

  Spans ranges_;
  Spans live_;
  int added_ = 0;
  bool expects_live_ = false;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_RANGE_CHECKER_H_
