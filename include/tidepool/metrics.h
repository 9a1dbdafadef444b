// SPDX-License-Identifier: Apache-2.0
// The figures of pools as text for Prometheus.
#ifndef TIDEPOOL_METRICS_H_
#define TIDEPOOL_METRICS_H_

#include <string>
#include <utility>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/pool.h"

namespace tidepool {

// The figures of a pool at a moment: of Pool::Stats and Pool::RegionStatistics.
struct PoolFigures {
  // Names and values of the labels of its samples, which tell pools apart, such as `pool`.
  std::vector<std::pair<std::string, std::string>> labels;
  PoolStats stats;
  std::vector<RegionStats> regions;
};

// Returns the figures in Prometheus' text format 0.0.4: `tidepool_live_bytes{pool="1"} 4096` and so
// on, by the names of the fields, with "_total" at counts that never fall. Samples of regions have
// the label `region`. Any text may be the value of a label; a byte that is not UTF-8 becomes \xff,
// in hexadecimal. O(pools and regions).
TIDEPOOL_EXPORT std::string MetricsText(const std::vector<PoolFigures>& pools);

}  // namespace tidepool

#endif  // TIDEPOOL_METRICS_H_
