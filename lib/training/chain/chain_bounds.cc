// SPDX-License-Identifier: Apache-2.0
// Memory that a chain needs, and bounds on its time.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool {

std::vector<std::int64_t> ForwardBytes(const Chain& chain) {
  std::vector<std::int64_t> bytes = chain.forward_extra;
  std::int64_t kept = chain.x[0];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    kept += chain.x[i + 1];
    bytes[i] += kept;
  }
  return bytes;
}

std::vector<std::int64_t> BackwardBytes(const Chain& chain) {
  std::vector<std::int64_t> bytes = chain.backward_extra;
  std::int64_t kept = chain.x[0];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    kept += chain.x[i + 1];
    bytes[i] += kept + chain.y[i] + chain.y[i + 1];
  }
  return bytes;
}

std::int64_t ChainPeak(const Chain& chain) {
  const std::vector<std::int64_t> forward = ForwardBytes(chain);
  const std::vector<std::int64_t> backward = BackwardBytes(chain);
  return std::max(*std::max_element(forward.begin(), forward.end()),
                  *std::max_element(backward.begin(), backward.end()));
}

std::int64_t LeastChainMemory(const Chain& chain) {
  std::int64_t least = 0;
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    const std::int64_t both = chain.x[i] + chain.x[i + 1];
    least = std::max({least, both + chain.forward_extra[i],
                      both + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i]});
  }
  return least;
}

double ChainSeconds(const Chain& chain) {
  const double forward =
      std::accumulate(chain.forward_seconds.begin(), chain.forward_seconds.end(), 0.0);
  return std::accumulate(chain.backward_seconds.begin(), chain.backward_seconds.end(), forward);
}

double ChainLowerBound(const Chain& chain) {
  const auto away = static_cast<double>(ChainPeak(chain) - chain.memory_bytes);
  return std::max(ChainSeconds(chain), 2 * away / chain.link_bytes_per_second);
}

double ChainOperationBound(const Chain& chain) {
  // All operations in the order in which they run.
  std::vector<double> seconds = chain.forward_seconds;
  seconds.insert(seconds.end(), chain.backward_seconds.rbegin(), chain.backward_seconds.rend());
  std::vector<std::int64_t> bytes = ForwardBytes(chain);
  const std::vector<std::int64_t> backward = BackwardBytes(chain);
  bytes.insert(bytes.end(), backward.rbegin(), backward.rend());
  double after = ChainSeconds(chain);
  double bound = after;
  double before = 0;
  for (std::size_t k = 0; k < seconds.size(); ++k) {
    after -= seconds[k];
    const auto away = static_cast<double>(bytes[k] - chain.memory_bytes);
    const double transfer = away / chain.link_bytes_per_second;
    bound = std::max(bound, std::max(before, transfer) + seconds[k] + std::max(after, transfer));
    before += seconds[k];
  }
  return bound;
}

}  // namespace tidepool
