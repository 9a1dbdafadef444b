// SPDX-License-Identifier: Apache-2.0
// Ranges with values against an array with a value for each byte.
#include "lib/training/schedule/steps/byte_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::schedule {
namespace {

constexpr std::int64_t kBytes = 48;
constexpr int kNothing = -1;

class Model {
 public:
  Model() { values_.fill(kNothing); }

  template <typename Change>
  void ForEach(ByteRange range, const Change& change) {
    std::for_each(values_.begin() + range.begin, values_.begin() + range.end, change);
  }
  bool IsFree(ByteRange range) {
    bool is_free = true;
    ForEach(range, [&](int value) { is_free = is_free && value == kNothing; });
    return is_free;
  }
  const std::array<int, kBytes>& values() const { return values_; }

 private:
  std::array<int, kBytes> values_;
};

std::array<int, kBytes> BytesOf(const ByteValues<int>& ranges) {
  std::array<int, kBytes> values;
  values.fill(kNothing);
  ranges.Visit({0, kBytes}, [&](ByteRange range, int value) {
    std::fill(values.begin() + range.begin, values.begin() + range.end, value);
  });
  return values;
}

std::vector<int> Different(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

TEST(ByteValues, AreThoseOfEachByte) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    ByteValues<int> ranges;
    Model model;
    for (int step = 0; step < 60; ++step) {
      const std::int64_t begin = below(kBytes);
      const ByteRange range = {begin, begin + 1 + below(kBytes - begin)};
      if (model.IsFree(range)) {
        ranges.Add(range, step);
        model.ForEach(range, [&](int& value) { value = step; });
      } else if (below(2) == 0) {
        ranges.Change(range, [](int& value) { value += 100; });
        model.ForEach(range, [](int& value) { value += value == kNothing ? 0 : 100; });
      } else {
        std::vector<int> taken;
        std::vector<int> expected;
        ranges.Take(range, [&](int value) { taken.push_back(value); });
        model.ForEach(range, [&](int& value) {
          if (value != kNothing) expected.push_back(value);
          value = kNothing;
        });
        ASSERT_EQ(Different(taken), Different(expected));
      }
      ASSERT_EQ(BytesOf(ranges), model.values());
    }
    EXPECT_EQ(ranges.AreAll([&](int value) { return value >= 100; }),
              std::all_of(model.values().begin(), model.values().end(),
                          [](int value) { return value == kNothing || value >= 100; }));
  }
}

}  // namespace
}  // namespace tidepool::schedule
