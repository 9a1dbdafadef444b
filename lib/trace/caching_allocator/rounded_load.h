// SPDX-License-Identifier: Apache-2.0
// Rounded load: the live bytes of a trace in the allocator's block sizes.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDED_LOAD_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDED_LOAD_H_

#include <cstdint>

#include "tidepool/trace/caching_allocator.h"
#include "tidepool/trace/trace.h"

namespace tidepool::caching_allocator {

// Returns the peak of rounded bytes of live allocations, with each failure as an allocation that is
// freed at once. No memory below it serves the trace. At most kMostCachingMemory + 1. O(events).
std::int64_t PeakRoundedBytes(const Trace& trace, const CachingAllocatorSettings& settings);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDED_LOAD_H_
