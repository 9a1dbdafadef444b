// SPDX-License-Identifier: Apache-2.0
// Observers: tells the recorder and the iterations of a pool about each request.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_OBSERVERS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_OBSERVERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/iterations.h"
#include "lib/memory/pool/stream_order.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// A request that was served.
struct Served {
  void* address = nullptr;
  std::int64_t asked_bytes = 0;  // as the caller asked
  Request request;               // rounded
  BlockId block = kNoBlock;
  std::int64_t live_bytes = 0;  // before the request
};

// Each function is a single test when a pool has no observer. Not thread-safe, but for AwaitPlans:
// the books' mutex guards it.
class Observers {
 public:
  // `planned` is the policy of the pool, or null when the policy follows no plans.
  Observers(const PoolOptions& options, PlannedPlacement* planned);

  void OnAllocate(const Served& served, const StreamClock& clock) {
    if (has_any_) [[unlikely]]
      TellAllocation(served, clock);
  }
  // Before the block is free.
  void OnFree(BlockId block, const StreamClock& clock) {
    if (iterations_ != nullptr) [[unlikely]]
      iterations_->OnFree(block, clock.index);
  }
  void OnFreed(const void* address, const StreamClock& clock) {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->Free(address, clock.stream);
  }
  // Before work of a stream waits for work of another one.
  void OnWait(const StreamClock& clock, const StreamClock& awaited);
  void OnRefusal(std::size_t bytes, Hint hint, Stream stream);
  void OnMark(std::string_view name);

  // Whether frees must say which block they free.
  bool NeedsBlocks() const { return iterations_ != nullptr; }
  // Whether the next request begins an iteration, as far as iterations were found.
  bool BeginsIteration() const { return iterations_ != nullptr && iterations_->IsBoundary(); }
  // Notes that the caller marked the beginning of an iteration. Returns false when the pool does
  // not plan.
  bool MarkIteration();
  // Ends an iteration and begins the next one; the pool plans. Returns the needs of the
  // plans. Excluded blocks are obstacles for plans unless they may get memory again.
  PlanNeeds BeginIteration(const blocks::BlockMap& blocks, bool exclusions_stay);
  void AwaitPlans();
  // Adds the counts of plans.
  void AddCounts(PoolStats& stats) const;

 private:
  void TellAllocation(const Served& served, const StreamClock& clock);
  LiveMemory LiveMemoryOf(const blocks::BlockMap& blocks, bool exclusions_stay) const;

  PoolObserver* const recorder_;
  const std::unique_ptr<Iterations> iterations_;
  const bool has_any_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_OBSERVERS_H_
