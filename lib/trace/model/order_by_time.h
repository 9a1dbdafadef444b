// SPDX-License-Identifier: Apache-2.0
// Order by time: a radix sort, because sorting is most of the work of reading lifetimes.
#ifndef TIDEPOOL_LIB_TRACE_MODEL_ORDER_BY_TIME_H_
#define TIDEPOOL_LIB_TRACE_MODEL_ORDER_BY_TIME_H_

#include <cstdint>
#include <vector>

namespace tidepool::trace {

// Returns the indices of `times` in the order of time; equal times keep their order. There must be
// fewer than 2^32 times. O(n), or O(n log n) when they spread over more than 2^63 / n.
std::vector<std::uint32_t> OrderByTime(const std::vector<std::int64_t>& times);

}  // namespace tidepool::trace

#endif  // TIDEPOOL_LIB_TRACE_MODEL_ORDER_BY_TIME_H_
