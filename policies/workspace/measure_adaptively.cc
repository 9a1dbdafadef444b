// SPDX-License-Identifier: Apache-2.0
// Finds the fastest micro-batches from few measurements. A table of the measured rows and of the
// least times of all others has an optimum. If it has measured rows alone, none is faster.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace workspace {
namespace {

// An algorithm, with its precision.
using Method = std::pair<std::int64_t, KernelPrecision>;

Method MethodOf(const KernelRow& row) { return {row.algorithm, row.precision}; }

class AdaptiveSearch {
 public:
  AdaptiveSearch(std::int64_t batch, std::int64_t limit_bytes, const KernelProbe& probe)
      : batch_(batch),
        limit_bytes_(limit_bytes),
        probe_(probe),
        sizes_(static_cast<std::size_t>(batch)) {
    std::iota(sizes_.begin(), sizes_.end(), 1);
    for (const std::int64_t size : sizes_) {
      for (const KernelRow& row : probe.workspaces(size)) {
        if (row.workspace_bytes <= limit_bytes) unknown_.push_back(row);
      }
    }
  }

  AdaptiveAnswer Run() {
    const auto most = 3 * static_cast<std::int64_t>(MicroBatchSizes("powerOfTwo", batch_)->size());
    Measure(batch_);
    while (true) {
      const KernelConfiguration possible = Optimum(WithTimes(&AdaptiveSearch::LeastSeconds));
      answer_.configuration = Optimum(answer_.table);
      answer_.lower_bound_seconds = possible.seconds;
      // Unknown sizes that can be no better than known ones are not worth a measurement.
      answer_.proved = answer_.configuration.parts.empty() == possible.parts.empty() &&
                       answer_.configuration.seconds <= possible.seconds * (1 + kEqualSeconds);
      if (answer_.proved || 2 * (answer_.measured + 1) > most) return std::move(answer_);
      // Times mostly lie on a line or above it, so sizes that a line makes fast come first.
      const std::int64_t next = LargestUnknown(Optimum(WithTimes(&AdaptiveSearch::SecondsOnLine)));
      Measure(next > 0 ? next : LargestUnknown(possible));
    }
  }

 private:
  void Measure(std::int64_t size) {
    ++answer_.measured;
    measured_.push_back(size);
    for (KernelRow row : probe_.measure(size)) {
      row.micro_batch = size;
      times_[MethodOf(row)][size] = row.seconds;
      answer_.table.push_back(row);
    }
    std::erase_if(unknown_, [&](const KernelRow& row) { return row.micro_batch == size; });
  }

  bool IsMeasured(std::int64_t size) const {
    return std::find(measured_.begin(), measured_.end(), size) != measured_.end();
  }

  KernelConfiguration Optimum(const KernelTable& table) const {
    const auto front = ConfigurationFront(table, sizes_, batch_, limit_bytes_);
    return front.empty() ? KernelConfiguration() : front.back();
  }

  // Returns the largest size of a configuration that was not measured; 0: none.
  std::int64_t LargestUnknown(const KernelConfiguration& configuration) const {
    std::int64_t largest = 0;
    for (const KernelPart& part : configuration.parts) {
      if (!IsMeasured(part.micro_batch)) largest = std::max(largest, part.micro_batch);
    }
    return largest;
  }

  // Returns the measured rows, and all others with the times of a function.
  KernelTable WithTimes(double (AdaptiveSearch::*seconds_of)(const KernelRow&) const) const {
    KernelTable table = answer_.table;
    for (KernelRow row : unknown_) {
      row.seconds = (this->*seconds_of)(row);
      table.push_back(row);
    }
    return table;
  }

  // The nearest measured sizes of an algorithm, and their times. Size 0 takes no time.
  struct Neighbours {
    std::int64_t smaller = 0;
    double smaller_seconds = 0;
    std::int64_t larger = 0;  // 0: none
    double larger_seconds = 0;
  };
  Neighbours NeighboursOf(const KernelRow& row) const {
    Neighbours its;
    const auto found = times_.find(MethodOf(row));
    if (found == times_.end()) return its;
    const auto larger = found->second.upper_bound(row.micro_batch);
    if (larger != found->second.begin()) {
      std::tie(its.smaller, its.smaller_seconds) = *std::prev(larger);
    }
    if (larger != found->second.end()) std::tie(its.larger, its.larger_seconds) = *larger;
    return its;
  }

  // Returns the time of the next smaller size, or that of the next larger one by samples.
  double LeastSeconds(const KernelRow& row) const {
    const Neighbours its = NeighboursOf(row);
    if (its.larger == 0) return its.smaller_seconds;
    const double share = static_cast<double>(row.micro_batch) / static_cast<double>(its.larger);
    return std::max(its.smaller_seconds, its.larger_seconds * share);
  }

  // Returns the time on the line between both.
  double SecondsOnLine(const KernelRow& row) const {
    const Neighbours its = NeighboursOf(row);
    if (its.larger == 0) return its.smaller_seconds;
    const double share = static_cast<double>(row.micro_batch - its.smaller) /
                         static_cast<double>(its.larger - its.smaller);
    return its.smaller_seconds + share * (its.larger_seconds - its.smaller_seconds);
  }

  const std::int64_t batch_;
  const std::int64_t limit_bytes_;
  const KernelProbe& probe_;
  std::vector<std::int64_t> sizes_;  // of "all"
  std::vector<std::int64_t> measured_;
  KernelTable unknown_;                                     // rows within the limit
  std::map<Method, std::map<std::int64_t, double>> times_;  // by size
  AdaptiveAnswer answer_;
};

}  // namespace
}  // namespace workspace

AdaptiveAnswer MeasureAdaptively(std::int64_t batch, std::int64_t limit_bytes,
                                 const KernelProbe& probe) {
  return workspace::AdaptiveSearch(batch, limit_bytes, probe).Run();
}

}  // namespace tidepool
