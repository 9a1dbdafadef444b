// SPDX-License-Identifier: Apache-2.0
// Checks settings and memory before a model is made of them.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CHECK_OPTIONS_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CHECK_OPTIONS_H_

#include "absl/status/status.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

// Returns InvalidArgument for the first field outside of its limits.
absl::Status CheckSettings(const CachingAllocatorSettings& settings);
absl::Status CheckMemory(std::int64_t memory_bytes);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CHECK_OPTIONS_H_
