// SPDX-License-Identifier: Apache-2.0
// Chains that stand for partition problems: Beaumont et al., "Optimal GPU-CPU Offloading Strategies
// for Deep Neural Network Training", Euro-Par 2020, Theorems 1 and 3. Each answer is known: it
// follows from the way the numbers are made, or from a search over all partitions.
#ifndef TIDEPOOL_TESTS_SUPPORT_PARTITION_CHAINS_H_
#define TIDEPOOL_TESTS_SUPPORT_PARTITION_CHAINS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool::testing {

using Numbers = std::vector<std::int64_t>;

// Returns operations that take no time and no memory, except for the sizes of x.
inline Chain ChainOfSizes(const Numbers& x, std::int64_t rate, std::int64_t memory) {
  const std::size_t operations = x.size() - 1;
  return {.forward_seconds = std::vector<double>(operations),
          .backward_seconds = std::vector<double>(operations),
          .forward_extra = Numbers(operations),
          .backward_extra = Numbers(operations),
          .x = x,
          .y = Numbers(x.size()),
          .link_bytes_per_second = static_cast<double>(rate),
          .memory_bytes = memory};
}

// Returns Theorem 3's chain. Its best makespan with interrupted transfers is 2 if and only if some
// of the numbers have half of their sum. Otherwise it is more.
inline Chain TwoPartitionChain(const Numbers& numbers) {
  const std::int64_t half = std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}) / 2;
  Numbers x = numbers;
  x.insert(x.end(), {0, 0, half, 0});
  Chain chain = ChainOfSizes(x, half, 2 * half);
  chain.forward_seconds[numbers.size()] = chain.backward_seconds[numbers.size()] = 1;
  return chain;
}

// Whether some of the numbers have half of their sum.
inline bool HasTwoPartition(const Numbers& numbers) {
  const std::int64_t sum = std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  std::vector<bool> reached(static_cast<std::size_t>(sum) + 1);
  reached[0] = true;
  for (const std::int64_t number : numbers) {
    for (std::int64_t total = sum; total >= number; --total) {
      const auto at = static_cast<std::size_t>(total);
      if (reached[at - static_cast<std::size_t>(number)]) reached[at] = true;
    }
  }
  return sum % 2 == 0 && reached[static_cast<std::size_t>(sum / 2)];
}

// Returns Theorem 1's chain, of 3 m numbers with the sum m V, each between V / 4 and V / 2. Its
// best makespan is 2 m if and only if the numbers are m triples of the sum V. In the text the
// activations of V bytes are one operation too early, k ends at m, and L is 5 m.
inline Chain ThreePartitionChain(const Numbers& numbers) {
  const auto triples = static_cast<std::int64_t>(numbers.size() / 3);
  const std::int64_t sum = std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  Numbers x = numbers;
  x.push_back(0);
  for (std::int64_t k = 0; k < triples; ++k) x.insert(x.end(), {0, sum / triples});
  Chain chain = ChainOfSizes(x, sum / triples, sum);
  for (std::int64_t k = 0; k < triples; ++k) {
    chain.forward_seconds[numbers.size() + 2 * static_cast<std::size_t>(k)] = 1;
  }
  chain.backward_seconds[numbers.size()] = static_cast<double>(triples);
  return chain;
}

// Whether the numbers are triples of this sum, in any order.
inline bool HasThreePartition(Numbers numbers, std::int64_t sum) {
  if (numbers.empty()) return true;
  const std::int64_t first = numbers.back();
  numbers.pop_back();
  for (std::size_t a = 0; a < numbers.size(); ++a) {
    for (std::size_t b = a + 1; b < numbers.size(); ++b) {
      if (first + numbers[a] + numbers[b] != sum) continue;
      Numbers rest = numbers;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(b));
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(a));
      if (HasThreePartition(rest, sum)) return true;
    }
  }
  return false;
}

// Makes random numbers for these chains.
class RandomPartitions {
 public:
  explicit RandomPartitions(std::uint64_t seed) : random_(seed) {}

  // Returns numbers of which some have half of the sum.
  Numbers Halves(std::size_t count) {
    Numbers numbers;
    std::int64_t difference = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      numbers.push_back(Between(1, 40));
      difference += difference > 0 ? -numbers.back() : numbers.back();
    }
    numbers.push_back(std::abs(difference));
    std::shuffle(numbers.begin(), numbers.end(), random_);
    return numbers;
  }
  // Returns numbers with an even sum, of which none have half.
  Numbers NoHalves(std::size_t count) {
    Numbers numbers;
    while (numbers.empty() || Sum(numbers) % 2 != 0 || HasTwoPartition(numbers)) {
      numbers.assign(1, Between(20, 60));
      while (numbers.size() < count) numbers.push_back(3 * Between(1, 12));
    }
    return numbers;
  }
  // Returns triples of the sum V, in random order.
  Numbers Triples(std::size_t triples, std::int64_t v) {
    Numbers numbers;
    while (numbers.size() < 3 * triples) {
      const std::int64_t a = Between(v / 4 + 1, (v - 1) / 2);
      const std::int64_t b = Between(v / 4 + 1, (v - 1) / 2);
      const std::int64_t c = v - a - b;
      if (4 * c > v && 2 * c < v) numbers.insert(numbers.end(), {a, b, c});
    }
    std::shuffle(numbers.begin(), numbers.end(), random_);
    return numbers;
  }
  // Returns as many numbers in the same range and with the same sum, that are no such triples.
  Numbers NoTriples(std::size_t triples, std::int64_t v) {
    while (true) {
      Numbers numbers = Triples(triples, v);
      for (int k = 0; k < 20; ++k) {
        std::int64_t& more = numbers[Index(numbers.size())];
        std::int64_t& less = numbers[Index(numbers.size())];
        if (2 * (more + 1) < v && 4 * (less - 1) > v) {
          ++more;
          --less;
        }
      }
      if (!HasThreePartition(numbers, v)) return numbers;
    }
  }

 private:
  static std::int64_t Sum(const Numbers& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  }
  std::int64_t Between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  std::size_t Index(std::size_t count) {
    return static_cast<std::size_t>(Between(0, static_cast<std::int64_t>(count) - 1));
  }

  std::mt19937_64 random_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_PARTITION_CHAINS_H_
