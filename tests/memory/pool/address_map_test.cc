// SPDX-License-Identifier: Apache-2.0
// Addresses and offsets of stretches that come and go, against a list of them.
#include "lib/memory/pool/address_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::pool {
namespace {

struct Stretch {
  Range offsets;
  char* address;
};

std::int64_t ExpectedOffset(const std::vector<Stretch>& stretches, const char* address) {
  for (const Stretch& stretch : stretches) {
    if (address >= stretch.address && address < stretch.address + stretch.offsets.bytes()) {
      return stretch.offsets.begin + (address - stretch.address);
    }
  }
  return -1;
}

TEST(AddressMap, KnowsNoAddressWhenItIsEmpty) {
  const AddressMap map;
  int anything = 0;
  EXPECT_EQ(map.OffsetOf(&anything), -1);
  EXPECT_EQ(map.OffsetOf(nullptr), -1);
}

TEST(AddressMap, AnswersLikeAListOfStretches) {
  constexpr std::int64_t kPlaces = 32;
  constexpr std::int64_t kPlace = 4096;
  // Each slot has an unused slot before and after it.
  std::vector<char> memory((kPlaces + 2) * kPlace);
  std::mt19937 random(3);
  AddressMap map;
  std::vector<Stretch> stretches;
  std::vector<bool> taken_offsets(kPlaces);
  std::vector<bool> taken_addresses(kPlaces);
  for (int step = 0; step < 20'000; ++step) {
    const auto offset = static_cast<std::int64_t>(random() % kPlaces);
    const auto address = static_cast<std::int64_t>(random() % kPlaces);
    if (random() % 8 == 0 && !taken_offsets[offset] && !taken_addresses[address]) {
      // Some fill their place, so that neighbours touch.
      const std::int64_t bytes = random() % 2 == 0 ? kPlace : 1 + random() % kPlace;
      stretches.push_back(
          {{offset * kPlace, offset * kPlace + bytes}, &memory[(address + 1) * kPlace]});
      map.Add(stretches.back().offsets, stretches.back().address);
      taken_offsets[offset] = taken_addresses[address] = true;
    } else if (random() % 8 == 0 && !stretches.empty()) {
      std::swap(stretches[random() % stretches.size()], stretches.back());
      const Stretch removed = stretches.back();
      stretches.pop_back();
      map.Remove(removed.offsets);
      taken_offsets[removed.offsets.begin / kPlace] = false;
      taken_addresses[(removed.address - memory.data()) / kPlace - 1] = false;
    }
    for (int i = 0; i < 4; ++i) {
      const char* const asked = &memory[random() % memory.size()];
      ASSERT_EQ(map.OffsetOf(asked), ExpectedOffset(stretches, asked));
    }
    if (stretches.empty()) continue;
    const Stretch& known = stretches[random() % stretches.size()];
    const auto within = static_cast<std::int64_t>(random() % known.offsets.bytes());
    ASSERT_EQ(map.AddressOf(known.offsets.begin + within), known.address + within);
  }
}

}  // namespace
}  // namespace tidepool::pool
