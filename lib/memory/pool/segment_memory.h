// SPDX-License-Identifier: Apache-2.0
// SegmentMemory: memory in whole allocations of the device.
//
// A request that no free block serves gets a segment of its own or a larger one. Free memory in
// segments in which something lives cannot serve it. Segments in which nothing lives are given back
// for it when they stand in its way.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_MEMORY_H_

#include <cstdint>
#include <vector>

#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/segments.h"

namespace tidepool::pool {

class SegmentMemory final : public MemorySource {
 public:
  // The store has the budget that is shared with others.
  SegmentMemory(Device& device, const PoolOptions& options, StreamArena& arena,
                const PhysicalStore& store)
      : MemorySource(device, options, arena),
        store_(store),
        segments_(arena.addresses(), options.alignment) {}
  // Reports on stderr when the device does not take a segment back, not even when asked twice.
  ~SegmentMemory() override;

  void Abandon() override { segments_.Abandon(); }
  std::int64_t held_bytes() const override { return segments_.held_bytes(); }
  // Fences do not count.
  std::int64_t high_water() const override;
  bool exclusions_stay() const override { return true; }

 private:
  absl::Status TakeInitial(std::int64_t bytes, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::StatusOr<Placement> TakeFor(const Request& request, Growth& growth,
                                    PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  void ProvideMemory(Range range, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status SetAsideAll(std::int64_t keep_bytes, const Range& kept, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status Give(const Range& range, Receiver receiver, bool& is_held, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  std::int64_t HeldBytesIn(const Range& range) const override { return segments_.BytesIn(range); }
  std::int64_t LeastGrowth() const override;

  absl::StatusOr<BlockId> AddSegment(std::int64_t bytes, std::int64_t step, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::StatusOr<Placement> GiveBackFor(const std::vector<BlockId>& segments, Growth& growth,
                                        PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  void SetAsideSegment(BlockId block);
  void NoteHighWater();
  absl::Status FreeOfDevice(void* address, std::int64_t bytes);

  const PhysicalStore& store_;
  Segments segments_;
  // The end of the highest block when segments last came or went, and the highest end until then
  // without fences.
  std::int64_t noted_end_ = 0;
  std::int64_t noted_high_water_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_MEMORY_H_
