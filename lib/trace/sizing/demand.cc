// SPDX-License-Identifier: Apache-2.0
// Measures the demand of a trace, and adds refused requests to its allocations.
#include "tidepool/trace/demand.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

// Returns the sum of `live` and the aligned `bytes`, or 2^63 - 1 if that is less.
std::int64_t Needs(std::int64_t live, std::int64_t bytes, std::int64_t alignment) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(bytes, alignment - 1, &sum)) return INT64_MAX;
  return __builtin_add_overflow(live, sum & -alignment, &sum) ? INT64_MAX : sum;
}

// Builds the trace with refused requests. Allocations are numbered in the order of their events, so
// those after a refused request get higher numbers.
class DemandTrace {
 public:
  explicit DemandTrace(const Trace& trace) : old_(trace), new_(trace) {
    new_.events.clear();
    new_.allocations.clear();
    new_.failures.clear();
    new_.allocation_ids = StringTable();
    new_.row_order.clear();
    numbers_.resize(trace.allocations.size());
  }

  absl::StatusOr<Trace> Build() {
    for (std::size_t i = 0; i < old_.events.size(); ++i) {
      if (absl::Status status = Add(i); !status.ok()) return status;
    }
    return std::move(new_);
  }

 private:
  absl::Status Add(std::size_t index) {
    TraceEvent event = old_.events[index];
    if (event.kind == TraceEvent::Kind::kFailure) return AddFailure(index);
    if (event.kind == TraceEvent::Kind::kAllocate) {
      numbers_[event.index] =
          AddAllocation(old_.allocations[event.index], old_.allocation_ids[event.index]);
    }
    if (event.TouchesMemory()) event.index = numbers_[event.index];
    new_.events.push_back(event);
    return absl::OkStatus();
  }

  absl::Status AddFailure(std::size_t index) {
    TraceEvent event = old_.events[index];
    const TraceFailure& failure = old_.failures[event.index];
    if (failure.bytes > kMaxRequestBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a request of ", failure.bytes, " bytes was refused at event ", index,
                       ", expected at most ", kMaxRequestBytes, ": no pool serves it"));
    }
    if (failure.bytes == 0) {
      event.index = static_cast<std::uint32_t>(new_.failures.size());
      new_.failures.push_back(failure);
      new_.events.push_back(event);
      return absl::OkStatus();
    }
    const std::string id = absl::StrCat("refused request ", event.index);
    if (new_.allocations.size() >= UINT32_MAX - 1 || new_.allocation_ids.IsFullFor(id.size())) {
      return absl::ResourceExhaustedError("more allocations than a trace can number");
    }
    event.index = AddAllocation(failure, id);
    for (const auto kind : {TraceEvent::Kind::kAllocate, TraceEvent::Kind::kFree}) {
      event.kind = kind;
      new_.events.push_back(event);
    }
    return absl::OkStatus();
  }

  std::uint32_t AddAllocation(const TraceAllocation& allocation, std::string_view id) {
    new_.allocations.push_back(allocation);
    new_.allocation_ids.Add(id);
    return static_cast<std::uint32_t>(new_.allocations.size() - 1);
  }

  const Trace& old_;
  Trace new_;
  std::vector<std::uint32_t> numbers_;  // new numbers of allocations, by old number
};

}  // namespace

absl::StatusOr<TraceDemand> MeasureDemand(const Trace& trace, std::int64_t alignment) {
  const absl::StatusOr<TraceLoad> load = MeasureLoad(trace, alignment);
  if (!load.ok()) return load.status();
  TraceDemand demand;
  demand.peak_live_bytes = load->peak_live_bytes;
  demand.needs_bytes = load->peak_live_bytes;
  if (trace.failures.empty()) return demand;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.TouchesMemory()) {
      const std::int64_t bytes = AlignUp(trace.allocations[event.index].bytes, alignment);
      live += event.kind == TraceEvent::Kind::kAllocate ? bytes : -bytes;
    }
    if (event.kind != TraceEvent::Kind::kFailure) continue;
    const TraceFailure& failure = trace.failures[event.index];
    demand.refused.push_back({.bytes = failure.bytes,
                              .live_bytes = live,
                              .event = static_cast<std::int64_t>(i),
                              .tag = failure.tag,
                              .device_free_bytes = failure.device_free_bytes});
    demand.needs_bytes = std::max(demand.needs_bytes, Needs(live, failure.bytes, alignment));
  }
  return demand;
}

absl::StatusOr<Trace> WithRefusedRequests(const Trace& trace) {
  if (trace.failures.empty()) return trace;
  return DemandTrace(trace).Build();
}

}  // namespace tidepool
