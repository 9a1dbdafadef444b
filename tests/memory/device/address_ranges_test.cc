// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses against a set of bytes.
#include "lib/memory/device/address_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tidepool::device {
namespace {

void* ToAddress(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

TEST(AddressRanges, EqualASetOfBytes) {
  constexpr std::int64_t kEnd = 60;
  std::mt19937_64 random(1);
  AddressRanges ranges;
  std::vector<std::int64_t> owner(kEnd + 1,
                                  0);  // the beginning of the range that holds each byte, or 0
  for (int step = 0; step < 20'000; ++step) {
    const auto begin = static_cast<std::int64_t>(1 + random() % (kEnd - 1));
    const auto bytes = static_cast<std::int64_t>(1 + random() % 12);
    const auto first = owner.begin() + begin;
    const auto last = owner.begin() + std::min(begin + bytes, kEnd);
    const bool overlaps = std::any_of(first, last, [](std::int64_t o) { return o != 0; });
    const bool covers =
        begin + bytes <= kEnd && std::none_of(first, last, [](std::int64_t o) { return o == 0; });
    void* address = ToAddress(static_cast<std::uintptr_t>(begin));
    ASSERT_EQ(ranges.Overlap(address, bytes), overlaps);
    ASSERT_EQ(ranges.Cover(address, bytes), covers);
    ASSERT_EQ(ranges.Contain(address, bytes),
              covers && std::all_of(first, last, [&](std::int64_t o) { return o == *first; }));
    ASSERT_EQ(ranges.BytesAt(address), std::count(owner.begin(), owner.end(), begin));
    if (owner[begin] == begin) {
      ranges.Erase(address);
      std::replace(owner.begin(), owner.end(), begin, std::int64_t{0});
    } else if (!overlaps && begin + bytes <= kEnd) {
      ranges.Insert(address, bytes);
      std::fill(first, last, begin);
    }
  }
}

TEST(AddressRanges, AreAskedAboutRangesOverTheEnd) {
  constexpr std::uintptr_t kLast = std::numeric_limits<std::uintptr_t>::max();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  AddressRanges ranges;
  ranges.Insert(ToAddress(4096), 4096);
  EXPECT_FALSE(ranges.Contain(ToAddress(4096), kMost));
  EXPECT_FALSE(ranges.Cover(ToAddress(4097), kMost));
  EXPECT_TRUE(ranges.Overlap(ToAddress(1), kMost));
  EXPECT_FALSE(ranges.Overlap(ToAddress(kLast), kMost));
  EXPECT_FALSE(ranges.Cover(ToAddress(kLast), kMost));
}

}  // namespace
}  // namespace tidepool::device
