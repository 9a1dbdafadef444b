// SPDX-License-Identifier: Apache-2.0
// The statistics of a pool as text.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_STATISTICS_TEXT_H_
#define TIDEPOOL_BINDINGS_SUPPORT_STATISTICS_TEXT_H_

#include <string>

#include "tidepool/pool.h"

namespace tidepool::bindings {

// Returns a few lines about the memory called `of`, without the end of the last one.
std::string StatisticsText(const std::string& of, const PoolStats& stats);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_STATISTICS_TEXT_H_
