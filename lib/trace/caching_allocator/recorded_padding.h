// SPDX-License-Identifier: Apache-2.0
// Recorded padding: the bytes that the recorded allocator added to each request, seen from the
// addresses of live blocks.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RECORDED_PADDING_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RECORDED_PADDING_H_

#include <cstdint>

#include "tidepool/trace/caching_allocator.h"
#include "tidepool/trace/trace.h"

namespace tidepool::caching_allocator {

// Returns 32, as in torch_npu, if blocks with this padding lie side by side, never overlap, and
// some of them are larger than blocks without it; else 0. O(events log live).
std::int64_t FindPadding(const Trace& trace, const CachingAllocatorSettings& settings);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RECORDED_PADDING_H_
