// SPDX-License-Identifier: Apache-2.0
// Lower bounds: the data that does not fit beside one backward operation costs time.
#include <algorithm>
#include <limits>
#include <vector>

#include "policies/training/chain/recompute_model.h"

namespace tidepool::chain_policies {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Data that is needed after B_k, and the price of not keeping it.
struct Item {
  double bytes = 0;
  double seconds = 0;  // of the forward operation that makes it; infinite: it cannot run again
};

// The data x_0, ..., x_k in ascending order of seconds a byte, and the bytes that cannot stay.
struct Shortage {
  std::vector<Item> items;
  double bytes = 0;
};

bool IsCheaper(const Item& a, const Item& b) { return a.seconds * b.bytes < b.seconds * a.bytes; }

Shortage ShortageBeside(const RecomputeModel& model, std::size_t k) {
  const Chain& chain = model.chain();
  Shortage shortage;
  std::int64_t bytes = model.x(k + 1) + model.BackwardBytes(k) - chain.memory_bytes;
  for (std::size_t i = 0; i <= k; ++i) {
    bytes += chain.x[i];
    if (chain.x[i] == 0) continue;
    const bool can_rerun = i > 0 && model.may_rerun(i - 1);
    shortage.items.push_back(
        {static_cast<double>(chain.x[i]), can_rerun ? model.forward_seconds(i - 1) : kInfinity});
  }
  // B_k reads the output of x_k, so at least that stays, but the rest may be missing.
  std::sort(shortage.items.begin(), shortage.items.end(), IsCheaper);
  shortage.bytes = static_cast<double>(bytes);
  return shortage;
}

// Returns the least seconds of forward operations that make room for `bytes`.
double RerunSeconds(const Shortage& shortage, double bytes) {
  double seconds = 0;
  for (const Item& item : shortage.items) {
    if (bytes <= 0) return seconds;
    const double part = std::min(1.0, bytes / item.bytes);
    seconds += item.seconds * part;
    bytes -= item.bytes;
  }
  return bytes > 0 ? kInfinity : seconds;
}

// The seconds of the operations before and after B_k.
struct Around {
  double before = 0;
  double after = 0;
};

// Returns the time of an iteration that transfers `moved` bytes around B_k.
double SecondsWith(const Shortage& shortage, const Around& around, double link, double moved) {
  const double copy = moved / link;
  const double reruns = RerunSeconds(shortage, shortage.bytes - moved);
  return std::max(around.before, copy) + std::max(around.after + reruns, copy);
}

// Returns the smallest such time, or a little less. The time is convex in the bytes that are moved,
// so a ternary search finds it. Of two points, the one with the longer time is beyond the smallest.
double BestSeconds(const Shortage& shortage, const Around& around, double link) {
  double low = 0;
  double high = std::max(0.0, shortage.bytes);
  for (int round = 0; round < 200 && high - low > 1e-12 * high; ++round) {
    const double third = (high - low) / 3;
    const double left = SecondsWith(shortage, around, link, low + third);
    const double right = SecondsWith(shortage, around, link, high - third);
    // With infinite prices on the left the smallest time is on the right.
    if (left < right) {
      high -= third;
    } else {
      low += third;
    }
  }
  const double best =
      std::min({SecondsWith(shortage, around, link, 0), SecondsWith(shortage, around, link, low),
                SecondsWith(shortage, around, link, high),
                SecondsWith(shortage, around, link, (low + high) / 2)});
  constexpr double kBeside = 1e-11;  // the search ends beside the smallest time
  return best * (1 - kBeside);
}

}  // namespace

std::vector<double> LeastRerunSeconds(const RecomputeModel& model) {
  std::vector<double> seconds;
  for (std::size_t k = 0; k < model.operations(); ++k) {
    const Shortage shortage = ShortageBeside(model, k);
    seconds.push_back(RerunSeconds(shortage, shortage.bytes));
  }
  return seconds;
}

double RecomputeBound(const RecomputeModel& model, bool transfers) {
  const Chain& chain = model.chain();
  const double sum = ChainSeconds(chain);
  double bound = sum;
  Around around{sum, 0};
  for (std::size_t k = 0; k < model.operations(); ++k) {
    around.before -= chain.backward_seconds[k];
    const Shortage shortage = ShortageBeside(model, k);
    const double least =
        transfers ? BestSeconds(shortage, around, chain.link_bytes_per_second)
                  : around.before + around.after + RerunSeconds(shortage, shortage.bytes);
    bound = std::max(bound, least + chain.backward_seconds[k]);
    around.after += chain.backward_seconds[k];
  }
  return bound;
}

}  // namespace tidepool::chain_policies
