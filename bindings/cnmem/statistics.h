// SPDX-License-Identifier: Apache-2.0
// The statistics of a pool as text.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_
#define TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_

#include <string>

#include "tidepool/pool.h"

namespace tidepool::cnmem {

// Returns a few lines about the memory called `of`.
std::string StatisticsText(const std::string& of, const PoolStats& stats);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_
