// The order of many times: a radix sort, because sorting is most of the work of reading lifetimes.
#ifndef TIDEPOOL_LIB_TRACE_ORDER_BY_TIME_H_
#define TIDEPOOL_LIB_TRACE_ORDER_BY_TIME_H_

#include <cstdint>
#include <vector>

namespace tidepool::trace {

// The indices of `times`, of which there are fewer than 2^32, in the order of time; equal ones in
// their own order. O(n), or O(n log n) when they spread over more than 2^63 / n.
std::vector<std::uint32_t> OrderByTime(const std::vector<std::int64_t>& times);

}  // namespace tidepool::trace

#endif  // TIDEPOOL_LIB_TRACE_ORDER_BY_TIME_H_
