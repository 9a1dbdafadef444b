// SPDX-License-Identifier: Apache-2.0
// IterationLog: the requests of an iteration, from which a plan for the next one is made.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_ITERATION_LOG_H_
#define TIDEPOOL_LIB_MEMORY_POOL_ITERATION_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/memory/plan/memory_log.h"
#include "tidepool/planned_placement.h"

namespace tidepool::pool {

// The free of a request of the last iteration, after `events` events of this iteration.
struct CarriedFree {
  std::uint32_t request = 0;
  std::int64_t events = 0;
  std::int64_t bytes = 0;
};

// Not thread-safe. Everything is O(1), amortised.
class IterationLog {
 public:
  // Longer iterations get no plan.
  static constexpr std::size_t kMostRequests = std::size_t{1} << 20;

  // Begins the next iteration. A brief log has only the number of requests and their signature.
  void Begin(bool is_brief) {
    last_was_brief_ = std::exchange(is_brief_, is_brief);
    last_signature_ = signature_;
    last_first_ = first_;
    first_ += requests_;
    last_bytes_ = std::move(log_.bytes);
    log_ = {};
    requests_ = 0;
    live_ = 0;
    signature_ = 0;
    carried_frees_.clear();
  }

  void Allocate(BlockId block, std::int64_t bytes, std::uint32_t stream) {
    signature_ = PlacementPlan::Extend(signature_, bytes);
    if (is_brief_) {
      ++requests_;
      return;
    }
    if (block >= request_.size()) request_.resize(2 * std::size_t{block} + 1);
    request_[block] = first_ + requests_;
    Add(plan::MemoryEvent::Kind::kAllocate, requests_, stream);
    log_.bytes.push_back(bytes);
    ++requests_;
    ++live_;
  }
  void Free(BlockId block, std::uint32_t stream) {
    if (is_brief_ || block >= request_.size()) return;
    const std::uint64_t request = std::exchange(request_[block], 0);  // the block may be used again
    if (request >= first_) {
      Add(plan::MemoryEvent::Kind::kFree, request - first_, stream);
      --live_;
    } else if (request >= last_first_) {
      const std::uint64_t index = request - last_first_;
      carried_frees_.push_back({static_cast<std::uint32_t>(index),
                                static_cast<std::int64_t>(log_.events.size()), last_bytes_[index]});
    }
  }
  void Wait(std::uint32_t stream, std::uint32_t awaited) {
    if (is_brief_) return;
    Add(plan::MemoryEvent::Kind::kWait, awaited, stream);
    log_.streams = std::max<std::size_t>(log_.streams, std::size_t{awaited} + 1);
  }

  // Whether a used block was allocated in this iteration.
  bool Has(BlockId block) const { return block < request_.size() && request_[block] >= first_; }
  bool IsFull() const { return requests_ >= kMostRequests; }
  std::size_t requests() const { return requests_; }
  std::uint64_t signature() const { return signature_; }
  // Whether the last iteration made the same requests, and was not logged briefly.
  bool RepeatsLast() const { return !last_was_brief_ && signature_ == last_signature_; }
  // Whether every request of this iteration was freed in it.
  bool FreesAll() const { return live_ == 0; }

  // Returns the index of the request of a block that was allocated in this iteration.
  std::uint32_t RequestOf(BlockId block) const {
    return static_cast<std::uint32_t>(request_[block] - first_);
  }
  // Returns the iteration, of a log that is not brief.
  const plan::MemoryLog& log() const { return log_; }
  // Returns the frees of requests that the last iteration left live.
  const std::vector<CarriedFree>& carried_frees() const { return carried_frees_; }

 private:
  void Add(plan::MemoryEvent::Kind kind, std::size_t index, std::uint32_t stream) {
    log_.events.push_back(
        {.index = static_cast<std::uint32_t>(index), .stream = stream, .kind = kind});
    log_.streams = std::max<std::size_t>(log_.streams, std::size_t{stream} + 1);
  }

  bool is_brief_ = false;
  bool last_was_brief_ = false;
  std::uint64_t first_ = 1;       // of the iteration's requests, among all
  std::uint64_t last_first_ = 1;  // of the last iteration's requests, among all
  std::uint64_t last_signature_ = 0;
  std::vector<std::uint64_t> request_;    // by used block
  std::vector<std::int64_t> last_bytes_;  // by request of the last iteration
  plan::MemoryLog log_;
  std::size_t requests_ = 0;
  std::size_t live_ = 0;
  std::uint64_t signature_ = 0;
  std::vector<CarriedFree> carried_frees_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_ITERATION_LOG_H_
