// SPDX-License-Identifier: Apache-2.0
// The figures of all pools of a process, and of their owners, as text for Prometheus.
#ifndef TIDEPOOL_BINDINGS_C_METRICS_H_
#define TIDEPOOL_BINDINGS_C_METRICS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "bindings/c/c_pool.h"
#include "tidepool/c_api.h"
#include "tidepool/metrics.h"

namespace tidepool::c_api {

// The figures of a pool at a moment, valid as long as the pool.
struct Figures {
  PoolFigures pool;
  std::vector<tidepool_owner_statistics> owners;
};

// `number`: of the pool in its process, from 1 on.
Figures FiguresOf(std::size_t number, CPool& pool);

// Returns the text of tidepool::MetricsText, with the labels `pool` and `device`, and then a family
// for each figure of owners, with the label `owner` too.
std::string MetricsText(const std::vector<Figures>& pools);

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_METRICS_H_
