// SPDX-License-Identifier: Apache-2.0
// Trace run: one kind of event after the other.
#include "lib/trace/caching_allocator/trace_run.h"

namespace tidepool::caching_allocator {

using Kind = TraceEvent::Kind;

namespace {

// Other allocators give memory back for reasons that PyTorch's does not have.
bool IsFromPyTorch(const Trace& trace) {
  return trace.original_format == TraceFormat::kPyTorchSnapshot ||
         trace.original_format == TraceFormat::kChromeTrace;
}

}  // namespace

TraceRun::TraceRun(const Trace& trace, const CachingAllocatorSettings& settings,
                   std::int64_t memory_bytes, SegmentOrder order)
    : trace_(&trace),
      follows_releases_(IsFromPyTorch(trace)),
      allocator_(settings, memory_bytes, order) {}

std::int64_t TraceRun::NextRequest() const {
  const TraceEvent& event = trace_->events[at_];
  if (event.kind == Kind::kAllocate) return trace_->allocations[event.index].bytes;
  return event.kind == Kind::kFailure ? trace_->failures[event.index].bytes : 0;
}

bool TraceRun::MayDependOnMemory() const {
  const std::int64_t bytes = NextRequest();
  return bytes > 0 && allocator_.MayDependOnMemory(bytes, trace_->events[at_].stream);
}

bool TraceRun::Step() {
  const TraceEvent& event = trace_->events[at_++];
  if (event.kind == Kind::kReserve) {
    Reserve(event);
    return true;
  }
  is_releasing_ = false;
  if (event.kind == Kind::kAllocate) return Allocate(event);
  if (event.kind == Kind::kFailure) return Fail(event);
  if (event.kind == Kind::kFree) Free(event);
  return true;
}

bool TraceRun::Allocate(const TraceEvent& event) {
  const BlockId id = allocator_.Allocate(trace_->allocations[event.index].bytes, event.stream);
  if (id == kNoBlock) return false;
  live_[event.index] = id;
  return true;
}

// Requests the bytes of a failure, and frees them at once.
bool TraceRun::Fail(const TraceEvent& event) {
  const std::int64_t bytes = trace_->failures[event.index].bytes;
  if (bytes <= 0) return true;
  const BlockId id = bytes > kMaxRequestBytes ? kNoBlock : allocator_.Allocate(bytes, event.stream);
  if (id == kNoBlock) return false;
  allocator_.Free(id);
  return true;
}

void TraceRun::Free(const TraceEvent& event) {
  const auto found = live_.find(event.index);
  if (found == live_.end()) return;  // the request was refused
  allocator_.Free(found->second);
  live_.erase(found);
}

// Releases cached memory at the first of several reservations that gave memory back.
void TraceRun::Reserve(const TraceEvent& event) {
  const bool gives_back = trace_->reservations[event.index].bytes < 0;
  if (gives_back && !is_releasing_ && follows_releases_) allocator_.ReleaseCached();
  is_releasing_ = gives_back;
}

}  // namespace tidepool::caching_allocator
