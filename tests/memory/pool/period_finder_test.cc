// SPDX-License-Identifier: Apache-2.0
// Periods, against looking at everything.
#include "lib/memory/pool/period_finder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace tidepool::pool {
namespace {

using Requests = std::vector<std::pair<std::int64_t, std::int64_t>>;  // bytes, live bytes

bool EndsWithTwo(const Requests& requests, std::size_t period) {
  if (requests.size() < 2 * period) return false;
  for (std::size_t i = requests.size() - period; i < requests.size(); ++i) {
    if (requests[i] != requests[i - period]) return false;
  }
  return true;
}

// An iteration in which every request is another, but for a part that is repeated.
Requests RandomRequests(std::mt19937_64& random) {
  Requests iteration;
  for (std::size_t i = 0; i < 1 + random() % 100; ++i) {
    iteration.emplace_back(1 + random() % 5, static_cast<std::int64_t>(random() % 1000));
  }
  for (std::size_t i = 0; i < random() % 4; ++i) iteration.push_back(iteration[0]);
  return iteration;
}

TEST(PeriodFinderTest, FindsWhatRepeats) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    PeriodFinder finder;
    Requests requests;
    const auto add = [&](const std::pair<std::int64_t, std::int64_t>& request) {
      finder.Add(request.first, request.second);
      requests.push_back(request);
      if (finder.period() == 0) return;
      ASSERT_TRUE(EndsWithTwo(requests, finder.period()));
      ASSERT_LT(finder.UntilBoundary(), finder.period());
    };
    for (int i = 0; i < 50; ++i) add({100 + static_cast<std::int64_t>(random() % 50), 0});
    const Requests iteration = RandomRequests(random);
    const std::size_t times = 3 + PeriodFinder::kFewestRepeated / iteration.size();
    for (std::size_t again = 0; again < times; ++again) {
      for (const auto& request : iteration) add(request);
    }
    ASSERT_GT(finder.period(), 0U);
    EXPECT_EQ(iteration.size() % finder.period(), 0U);
    std::int64_t least = INT64_MAX;
    for (const auto& [bytes, live_bytes] : iteration) least = std::min(least, live_bytes);
    EXPECT_EQ(iteration[finder.UntilBoundary() % iteration.size()].second, least);
    add({-1, 0});
    EXPECT_EQ(finder.period(), 0U);
  }
}

TEST(PeriodFinderTest, FindsNothingInWhatDoesNotRepeat) {
  PeriodFinder finder;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    finder.Add(1 + i % 3, i);
    ASSERT_EQ(finder.period(), 0U);
  }
}

TEST(PeriodFinderTest, BeginsAnewWhenItHasSeenTooMuch) {
  PeriodFinder finder;
  for (std::size_t i = 0; i < PeriodFinder::kMostRequests; ++i) finder.Add(1, 0);
  EXPECT_EQ(finder.period(), 1U);
  finder.Add(1, 0);
  EXPECT_EQ(finder.period(), 0U);
  for (std::size_t i = 0; i < PeriodFinder::kFewestRepeated; ++i) finder.Add(1, 0);
  EXPECT_EQ(finder.period(), 1U);
}

}  // namespace
}  // namespace tidepool::pool
