// SPDX-License-Identifier: Apache-2.0
// Recorded settings: those that a snapshot holds, and those that its addresses show.
#include "lib/caching_allocator/recorded_padding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {

CachingAllocatorSettings RecordedCachingSettings(const Trace& trace) {
  CachingAllocatorSettings settings;
  settings.padding_bytes = caching_allocator::FindPadding(trace, settings);
  return settings;
}

}  // namespace tidepool
