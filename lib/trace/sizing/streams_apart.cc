// SPDX-License-Identifier: Apache-2.0
// Sorts the allocations of each stream, and the frees at the times at which their stream knows.
#include "tidepool/trace/streams_apart.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "lib/memory/plan/reuse_times.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;

// Frees come first at the same time.
struct StreamRequest {
  std::int64_t time;
  bool allocates;
  std::uint32_t allocation;  // in the whole trace

  bool operator<(const StreamRequest& other) const {
    return std::tie(time, allocates) < std::tie(other.time, other.allocates);
  }
};

Trace ToTrace(const Trace& whole, std::vector<StreamRequest> requests) {
  std::stable_sort(requests.begin(), requests.end());
  Trace trace;
  trace.original_format = whole.original_format;
  trace.default_alignment = whole.default_alignment;
  std::map<std::uint32_t, std::uint32_t> indices;
  for (const StreamRequest& request : requests) {
    if (request.allocates) {
      indices[request.allocation] = static_cast<std::uint32_t>(trace.allocations.size());
      trace.allocations.push_back(whole.allocations[request.allocation]);
    }
    TraceEvent event;
    event.kind = request.allocates ? Kind::kAllocate : Kind::kFree;
    event.index = indices.at(request.allocation);
    event.time = request.time;
    trace.events.push_back(event);
  }
  return trace;
}

}  // namespace

std::vector<Trace> StreamsApart(const Trace& trace, const PlanProblem& problem) {
  const plan::ReuseTimes reuse(problem);
  const auto end = static_cast<std::int64_t>(trace.events.size());
  std::map<std::uint32_t, std::vector<StreamRequest>> requests;
  for (std::uint32_t i = 0; i < problem.buffers.size(); ++i) {
    const PlanBuffer& buffer = problem.buffers[i];
    requests[buffer.stream].push_back({buffer.lower, true, i});
    const std::int64_t freed = reuse.For(buffer, buffer.stream);
    if (freed < end) requests[buffer.stream].push_back({freed, false, i});
  }
  std::vector<Trace> traces;
  traces.reserve(requests.size());
  for (auto& [stream, own] : requests) traces.push_back(ToTrace(trace, std::move(own)));
  return traces;
}

}  // namespace tidepool
