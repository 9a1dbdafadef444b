// What a pool has done, for people.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_
#define TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_

#include <string>

#include "tidepool/pool.h"

namespace tidepool::cnmem {

// A few lines; `of` says whose memory it is.
std::string StatisticsText(const std::string& of, const PoolStats& stats);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATISTICS_H_
