// SPDX-License-Identifier: Apache-2.0
// The figures of all pools of a process as text for Prometheus.
#ifndef TIDEPOOL_BINDINGS_C_METRICS_H_
#define TIDEPOOL_BINDINGS_C_METRICS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/c_pool.h"
#include "tidepool/c_api.h"

namespace tidepool::c_api {

// The figures of a pool at a moment.
struct PoolFigures {
  std::size_t number = 0;  // of the pool in its process, from 1 on
  std::string device;
  tidepool_statistics statistics = {};
  // By name, and by tag.
  std::vector<std::pair<std::string, tidepool_owner_statistics>> owners;
  std::vector<std::pair<std::string, tidepool_region_statistics>> regions;
};

PoolFigures FiguresOf(std::size_t number, CPool& pool);

// Returns the text, in version 0.0.4 of Prometheus' format: a family for each figure, in the order
// of tidepool_statistics, with the labels `pool` and `device`, those of owners with `owner`, and
// those of regions with `region`.
std::string MetricsText(const std::vector<PoolFigures>& pools);

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_METRICS_H_
