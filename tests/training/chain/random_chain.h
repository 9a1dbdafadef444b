// SPDX-License-Identifier: Apache-2.0
// Random chains. Most have numbers that are sums of few powers of two, so that times are exact.
#ifndef TIDEPOOL_TESTS_TRAINING_CHAIN_RANDOM_CHAIN_H_
#define TIDEPOOL_TESTS_TRAINING_CHAIN_RANDOM_CHAIN_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool {

inline constexpr std::int64_t kMuchMemory = std::int64_t{1} << 59;

namespace testing {

class RandomChains {
 public:
  explicit RandomChains(std::uint64_t seed) : random_(seed) {}

  std::int64_t Below(std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
  }
  // Returns the transfers of a random set, in random orders.
  ChainTransfers Transfers(std::size_t operations) {
    ChainTransfers transfers;
    for (std::size_t i = 0; i < operations; ++i) {
      if (Chance(0.6)) transfers.offloads.push_back(i);
    }
    transfers.prefetches = {transfers.offloads.rbegin(), transfers.offloads.rend()};
    if (Chance(0.5)) return transfers;
    std::shuffle(transfers.offloads.begin(), transfers.offloads.end(), random_);
    std::shuffle(transfers.prefetches.begin(), transfers.prefetches.end(), random_);
    return transfers;
  }

  // Returns a chain with operations and transfers of 0 to 3 seconds.
  Chain WholeSeconds(std::size_t operations) {
    Chain chain = Next(operations);
    chain.link_bytes_per_second = 4;
    for (double& seconds : chain.forward_seconds) seconds = static_cast<double>(Below(4));
    for (double& seconds : chain.backward_seconds) seconds = static_cast<double>(Below(4));
    for (std::int64_t& bytes : chain.x) bytes = 4 * Below(4);
    for (std::vector<std::int64_t>* list :
         {&chain.y, &chain.forward_extra, &chain.backward_extra}) {
      for (std::int64_t& bytes : *list) bytes = Chance(0.4) ? 0 : Below(9);
    }
    SetMemory(chain);
    return chain;
  }

  // Returns a chain with times that no sum of few powers of two is, and many times and sizes of 0.
  Chain RoundedSeconds(std::size_t operations) {
    const double zeros = 0.2 * static_cast<double>(Below(5));
    const auto bytes = [&](double part) { return Chance(part) ? 0 : Below(30'000'000) + 1; };
    const auto seconds = [&] {
      return Chance(zeros) ? 0 : std::uniform_real_distribution<double>(0, 4e-3)(random_);
    };
    Chain chain;
    chain.link_bytes_per_second = 12e9;
    for (std::size_t i = 0; i < operations; ++i) {
      chain.forward_seconds.push_back(seconds());
      chain.backward_seconds.push_back(seconds());
      chain.forward_extra.push_back(bytes(0.7));
      chain.backward_extra.push_back(bytes(0.7));
    }
    for (std::size_t i = 0; i < operations + 1; ++i) {
      chain.x.push_back(Chance(0.1) ? Below(3) : bytes(0.3));
      chain.y.push_back(bytes(0.6));
    }
    SetMemory(chain);
    return chain;
  }

  // Makes random parts of gradients stay through backward operations. The chain runs in its memory.
  void LetGradientsStay(Chain& chain) {
    for (std::size_t i = 0; i < chain.backward_extra.size(); ++i) {
      if (Chance(0.4)) continue;
      chain.backward_extra[i] = -(std::min(chain.y[i], chain.y[i + 1]) * Below(3) / 2);
    }
  }

  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  // Returns a chain of `operations` forward operations that runs in its memory. Some sizes and
  // times are 0.
  Chain Next(std::size_t operations) {
    Chain chain;
    chain.link_bytes_per_second = 1024;
    for (std::size_t i = 0; i < operations; ++i) {
      chain.forward_seconds.push_back(Seconds());
      chain.backward_seconds.push_back(Seconds());
      chain.forward_extra.push_back(Chance(0.5) ? 0 : Below(32) * 64);
      chain.backward_extra.push_back(Chance(0.5) ? 0 : Below(32) * 64);
    }
    for (std::size_t i = 0; i < operations + 1; ++i) {
      chain.x.push_back(Chance(0.1) ? 0 : Below(64) * 64);
      chain.y.push_back(Chance(0.3) ? 0 : Below(64) * 64);
    }
    SetMemory(chain);
    return chain;
  }

 private:
  void SetMemory(Chain& chain) {
    const std::int64_t least = LeastChainMemory(chain);
    chain.memory_bytes = least + Below(ChainPeak(chain) - least + 1);
  }

  double Seconds() { return Chance(0.15) ? 0 : static_cast<double>(Below(128)) / 32; }

  std::mt19937_64 random_;
};

}  // namespace testing
}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_TRAINING_CHAIN_RANDOM_CHAIN_H_
