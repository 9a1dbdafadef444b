// SPDX-License-Identifier: Apache-2.0
// Compares the iterations of a trace with those that a pool needs for a plan.
#include "trace_replay/replay/learning.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "tidepool/planned_placement.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr char kRemedy[] = "record at least five equal steps";

struct MarkedIterations {
  std::int64_t count = 0;
  std::set<std::uint64_t> kinds;  // signatures of their requests
};

MarkedIterations FindMarked(const Trace& trace, std::int64_t alignment) {
  MarkedIterations found;
  std::uint64_t signature = 0;
  const auto end = [&] {
    if (found.count > 0) found.kinds.insert(signature);
    signature = 0;
  };
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark &&
        trace.mark_names[event.index] == Pool::kIterationMark) {
      end();
      ++found.count;
    } else if (event.kind == TraceEvent::Kind::kAllocate) {
      const std::int64_t bytes = trace.allocations[event.index].bytes;
      signature = PlacementPlan::Extend(signature, AlignUp(bytes, alignment));
    }
  }
  end();
  return found;
}

std::string WhyNoPlansOfMarked(const MarkedIterations& marked) {
  const auto kinds = static_cast<std::int64_t>(marked.kinds.size());
  return absl::StrCat(
      CountText(marked.count), " marked iterations",
      kinds == marked.count && kinds > 1 ? ", and no two with the same requests" : "",
      ": the pool plans after two equal ones; ", kRemedy);
}

}  // namespace

std::string WhyNoPlans(const PoolStats& pool, const Trace& trace, std::int64_t alignment) {
  if (pool.plans > 0) return "";
  if (const MarkedIterations marked = FindMarked(trace, alignment); marked.count > 0) {
    return WhyNoPlansOfMarked(marked);
  }
  const std::string no_marks =
      absl::StrCat("no marks named '", std::string(Pool::kIterationMark), "', and ");
  if (pool.repeat_distance == 0) {
    return absl::StrCat(no_marks, "no request repeats with the same bytes live; ", kRemedy);
  }
  const std::string requests = CountText(pool.repeat_distance);
  if (pool.repeated_requests < pool.repeat_distance) {
    return absl::StrCat(no_marks, "no two equal iterations in a row: at best ",
                        CountText(pool.repeated_requests), " of ", requests, " requests repeat; ",
                        kRemedy);
  }
  return absl::StrCat(no_marks, "the trace ends soon after the first equal iterations, of ",
                      requests, " requests; ", kRemedy);
}

}  // namespace tidepool::tool
