// What one iteration of a pool asked for: what a plan for the next one is made from.
#ifndef TIDEPOOL_LIB_POOL_ITERATION_LOG_H_
#define TIDEPOOL_LIB_POOL_ITERATION_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/planned_placement.h"
#include "tidepool/trace.h"

namespace tidepool::pool {

// Not thread-safe. Everything is O(1), amortised.
class IterationLog {
 public:
  // Longer iterations have no plan.
  static constexpr std::size_t kMostRequests = std::size_t{1} << 22;

  // Forgets all: an iteration begins.
  void Begin() {
    first_ += trace_.allocations.size();
    trace_ = {};
    signature_ = 0;
    streams_ = 1;
  }

  void Allocate(BlockId block, std::int64_t bytes, std::uint32_t stream) {
    if (block >= request_.size()) request_.resize(2 * std::size_t{block} + 1);
    request_[block] = first_ + trace_.allocations.size();
    signature_ = PlacementPlan::Extend(signature_, bytes);
    Add(TraceEvent::Kind::kAllocate, trace_.allocations.size(), stream);
    trace_.allocations.push_back({.bytes = bytes});
  }
  void Free(BlockId block, std::uint32_t stream) {
    if (Has(block)) Add(TraceEvent::Kind::kFree, request_[block] - first_, stream);
  }
  void Wait(std::uint32_t stream, std::uint32_t awaited) {
    Add(TraceEvent::Kind::kWait, awaited, stream);
    streams_ = std::max<std::size_t>(streams_, std::size_t{awaited} + 1);
  }

  // Whether a used block was allocated in this iteration.
  bool Has(BlockId block) const { return block < request_.size() && request_[block] >= first_; }
  bool IsFull() const { return trace_.allocations.size() >= kMostRequests; }
  std::size_t requests() const { return trace_.allocations.size(); }
  std::uint64_t signature() const { return signature_; }

  // The iteration as a trace. The log is as after Begin.
  Trace Take();

 private:
  void Add(TraceEvent::Kind kind, std::size_t index, std::uint32_t stream) {
    trace_.events.push_back(
        {.index = static_cast<std::uint32_t>(index), .stream = stream, .kind = kind});
    streams_ = std::max<std::size_t>(streams_, std::size_t{stream} + 1);
  }

  std::uint64_t first_ = 1;             // of the iteration's requests, among all
  std::vector<std::uint64_t> request_;  // by the name of a used block
  Trace trace_;
  std::size_t streams_ = 1;
  std::uint64_t signature_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_ITERATION_LOG_H_
