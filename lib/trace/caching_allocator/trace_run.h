// SPDX-License-Identifier: Apache-2.0
// Trace run: serves the events of a trace one by one from a caching allocator.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_TRACE_RUN_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_TRACE_RUN_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "lib/trace/caching_allocator/caching_allocator.h"
#include "tidepool/trace/trace.h"

namespace tidepool::caching_allocator {

// A copy continues on its own. The trace must outlive the run. Not thread-safe.
class TraceRun {
 public:
  TraceRun(const Trace& trace, const CachingAllocatorSettings& settings, std::int64_t memory_bytes,
           SegmentOrder order = SegmentOrder::kAscending);

  bool IsAtEnd() const { return at_ == trace_->events.size(); }
  // Serves the next event. Returns false if it is a request that the allocator refused.
  bool Step();
  // Whether another memory of the device could change the outcome of the next event.
  bool MayDependOnMemory() const;

  // Index of the next event.
  std::size_t at() const { return at_; }
  const CachingAllocator& allocator() const { return allocator_; }
  void SetMemory(std::int64_t memory_bytes) { allocator_.SetMemory(memory_bytes); }
  // Returns the requested bytes of the next event; 0 if it is no request.
  std::int64_t NextRequest() const;

 private:
  bool Allocate(const TraceEvent& event);
  bool Fail(const TraceEvent& event);
  void Free(const TraceEvent& event);
  void Reserve(const TraceEvent& event);

  const Trace* trace_;
  bool follows_releases_;
  std::size_t at_ = 0;
  bool is_releasing_ = false;  // the last reservation gave memory back
  CachingAllocator allocator_;
  absl::flat_hash_map<std::uint32_t, BlockId> live_;  // by allocation
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_TRACE_RUN_H_
