// SPDX-License-Identifier: Apache-2.0
// Claim: dynprog takes less than a second and 1 GiB on each chain, exactly on chains of up to 30
// operations and in 500 slots on chains of up to 250. Prints the longest time of the processor over
// random chains, and the largest memory of the program.
//
// Sizes have a logarithmic distribution, memories and rates of the link are any between too little
// and plenty: half of these chains are trivial, and some are as hard as partition problems.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

#include "policies/training/chain/paper_values.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::bench {
namespace {

class Source {
 public:
  explicit Source(std::uint64_t seed) : random_(seed) {}
  double Between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  std::int64_t Bytes(double least, double most) {
    return static_cast<std::int64_t>(std::exp(Between(std::log(least), std::log(most))));
  }

 private:
  std::mt19937_64 random_;
};

Chain MakeChain(std::size_t operations, Source& source) {
  Chain chain;
  double seconds = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < operations; ++i) {
    chain.forward_seconds.push_back(source.Between(0, 1) < 0.1 ? 0 : source.Between(0, 0.01));
    chain.backward_seconds.push_back(chain.forward_seconds[i] * source.Between(1.6, 2.4));
    chain.forward_extra.push_back(source.Between(0, 1) < 0.5 ? 0 : source.Bytes(1e3, 1e8));
    chain.backward_extra.push_back(source.Between(0, 1) < 0.5 ? 0 : source.Bytes(1e3, 1e8));
    seconds += chain.forward_seconds[i];
  }
  for (std::size_t i = 0; i <= operations; ++i) {
    chain.x.push_back(source.Bytes(1e6, 1e8));
    chain.y.push_back(source.Bytes(1e3, 1e8));
    bytes += static_cast<double>(chain.x[i]);
  }
  chain.link_bytes_per_second = std::exp(source.Between(-2, 2)) * bytes / std::max(seconds, 1e-3);
  const auto least = static_cast<double>(LeastChainMemory(chain));
  const auto peak = static_cast<double>(ChainPeak(chain));
  chain.memory_bytes = static_cast<std::int64_t>(source.Between(least, peak));
  return chain;
}

void Measure(std::size_t operations, std::int64_t slots, int chains) {
  Source source(operations);
  double longest = 0;
  double total = 0;
  int proved = 0;
  for (int k = 0; k < chains; ++k) {
    const Chain chain = MakeChain(operations, source);
    const std::clock_t begin = std::clock();
    const auto schedule = MakeChainSchedule("dynprog", chain, {.slots = slots});
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (!schedule.ok()) std::printf("%s\n", schedule.status().ToString().c_str());
    longest = std::max(longest, seconds);
    total += seconds;
    if (slots == 0) proved += chain_policies::FindFractionalOptimum(chain)->proved ? 1 : 0;
  }
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%4zu operations, %s: longest %7.1f ms, mean %6.2f ms, %d chains", operations,
              slots == 0 ? "exact    " : "500 slots", longest * 1e3, total * 1e3 / chains, chains);
  if (slots == 0) std::printf(", %d proved", proved);
  std::printf("; the program took at most %ld MiB\n", usage.ru_maxrss / 1024);
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  for (const std::size_t operations : {10, 20, 30}) tidepool::bench::Measure(operations, 0, 200);
  for (const std::size_t operations : {30, 100, 250}) {
    tidepool::bench::Measure(operations, 500, 100);
  }
}
