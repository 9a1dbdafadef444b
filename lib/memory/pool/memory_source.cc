// SPDX-License-Identifier: Apache-2.0
// After each release of the locks the thread looks at the arena again, because other threads have
// freed, taken or trimmed meanwhile.
#include "lib/memory/pool/memory_source.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/pool/mapped_memory.h"
#include "lib/memory/pool/pool_options.h"
#include "lib/memory/pool/remapping_memory.h"
#include "lib/memory/pool/segment_memory.h"

namespace tidepool::pool {

std::unique_ptr<MemorySource> MemorySource::Create(Device& device, const PoolOptions& options,
                                                   StreamArena& arena, PhysicalStore& store) {
  if (options.memory == PoolMemory::kSegments) {
    return std::make_unique<SegmentMemory>(device, options, arena, store);
  }
  if (options.remap) return std::make_unique<RemappingMemory>(device, options, arena, store);
  return std::make_unique<MappedMemory>(device, options, arena, store);
}

// Live memory can lie such that a request finds no room although there is memory. First-fit needs
// at most this factor more: J. M. Robson, "Worst case fragmentation of first fit and best fit
// storage allocation strategies", The Computer Journal 20 (1977).
std::int64_t MemorySource::AddressBytes(const PoolOptions& options, const Device& device) {
  if (options.memory == PoolMemory::kSegments) {
    return Segments::OffsetBytes(options.max_bytes, options.alignment);
  }
  const std::int64_t granule = device.granularity();
  if (!options.remap) return AlignUp(MappedAddressBytes(options), granule);
  const auto granules = static_cast<std::uint64_t>(options.max_bytes / granule);
  return options.max_bytes * (std::bit_width(granules) + 1);
}

absl::Status MemorySource::Start(PoolLocks& locks) {
  const MemoryLock memory(locks);
  absl::Status status = TakeInitial(options_.initial_bytes, locks);
  NotePeak();
  return status;
}

absl::StatusOr<Placement> MemorySource::Grow(const Request& request, Stream stream,
                                             PoolLocks& locks) {
  Growth growth;
  {
    const MemoryLock memory(locks);
    absl::StatusOr<Placement> placement = GrowUntilPlaced(request, stream, growth, locks);
    if (!growth.must_give_back) return placement;
  }
  const GiveBackLock giving_back(locks);
  const MemoryLock memory(locks);
  growth.gives_back = true;
  return GrowUntilPlaced(request, stream, growth, locks);
}

// Returns no block as soon as the thread needs the lock of giving memory back and does not hold it.
absl::StatusOr<Placement> MemorySource::GrowUntilPlaced(const Request& request, Stream stream,
                                                        Growth& growth, PoolLocks& locks) {
  for (;;) {
    if (is_asleep_) return Placement::None();
    TakeBackLeaving();
    const absl::StatusOr<StreamClock*> clock = arena_.hand_over().FindClock(stream);
    if (!clock.ok()) return clock.status();
    if (!arena_.blocks().HasNames()) {
      growth_error_ =
          absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
      return Placement::None();
    }
    const Placement placement = arena_.Choose(request, **clock);
    if (placement.block != kNoBlock) return placement;
    absl::StatusOr<Placement> grown = TakeOnce(request, growth, locks);
    if (!grown.ok() || !growth.again) return grown;
    if (growth.must_give_back && !growth.gives_back) return Placement::None();
  }
}

absl::StatusOr<Placement> MemorySource::TakeOnce(const Request& request, Growth& growth,
                                                 PoolLocks& locks) {
  growth.again = false;
  growth_error_.clear();
  absl::StatusOr<Placement> placement = TakeFor(request, growth, locks);
  NotePeak();
  if (!absl::IsResourceExhausted(placement.status())) return placement;
  growth_error_ = std::string(placement.status().message());
  return Placement::None();
}

bool MemorySource::MayGrow(std::int64_t bytes) const {
  return options_.max_bytes - arena_.blocks().live_bytes() >= bytes;
}

void MemorySource::Provide(const Range& range, PoolLocks& locks) {
  const blocks::BlockMap& blocks = arena_.blocks();
  if (range.bytes() == 0) return;
  if (blocks.capacity() >= range.end && (exclusions_stay() || blocks.excluded_bytes() == 0)) return;
  const MemoryLock memory(locks);
  TakeBackLeaving();
  const std::int64_t held = held_bytes();
  ProvideMemory(range, locks);
  if (held_bytes() > held) CountGrowth();
  NotePeak();
}

absl::StatusOr<std::int64_t> MemorySource::Trim(std::int64_t keep_bytes, const Range& kept,
                                                Receiver receiver, PoolLocks& locks) {
  const GiveBackLock giving_back(locks);
  const MemoryLock memory(locks);
  if (is_asleep_) return 0;
  given_back_bytes_ = 0;
  const std::int64_t missing = kept.bytes() - BytesIn(kept);
  absl::Status status = SetAsideAll(keep_bytes - missing, kept, locks);
  if (status.ok()) status = GiveLeaving(receiver, locks);
  if (!status.ok()) return status;
  return given_back_bytes_;
}

void MemorySource::SetAside(BlockId block, const Range& range) {
  const Range inside = {range.begin, std::min(range.end, arena_.blocks().capacity())};
  leaving_.push_back({range, arena_.hand_over().TicketsIn(block, inside)});
  AddTickets(leaving_.back().tickets, TakeTicketsBeyond(range));
  arena_.Exclude(block, inside);
}

// Ranges that other threads took back meanwhile stay, and so do all ranges after an error.
absl::Status MemorySource::GiveLeaving(Receiver receiver, PoolLocks& locks) {
  Tickets tickets;
  for (const Leaving& leaving : leaving_) AddTickets(tickets, leaving.tickets);
  absl::Status status = arena_.hand_over().AwaitOnHost(tickets, locks);
  const bool may_give = status.ok() && MayGive(locks);
  while (may_give && status.ok() && !leaving_.empty()) {
    const Leaving leaving = std::move(leaving_.front());
    leaving_.pop_front();
    bool is_held = true;
    status = Give(leaving.range, receiver, is_held, locks);
    if (status.ok()) given_back_bytes_ += leaving.range.bytes();
    if (is_held) leaving_.push_front(leaving);
  }
  TakeBackLeaving();
  return status;
}

// Begins with the lowest range, so that the end of the arena grows without a gap.
void MemorySource::TakeBackLeaving() {
  for (; !leaving_.empty(); leaving_.pop_back()) {
    Include(leaving_.back().range, leaving_.back().tickets);
  }
}

std::int64_t MemorySource::BytesIn(const Range& range) const {
  std::int64_t bytes = HeldBytesIn(range);
  for (const Leaving& leaving : leaving_) {
    if (range.begin <= leaving.range.begin && leaving.range.end <= range.end) {
      bytes -= leaving.range.bytes();
    }
  }
  return bytes;
}

// While a pool fills, steps keep the calls of the device few. Later, when growth is seldom, growth
// by exactly the missing bytes is cheap. The number of growths stays logarithmic in the size of the
// pool.
std::int64_t MemorySource::GrowthStep() const {
  constexpr std::int64_t kSeldom = 16;           // allocations from growth to growth
  constexpr std::int64_t kMostPerDoubling = 16;  // growths, for the next to be exact
  const std::int64_t held = held_bytes();
  const int doublings = std::bit_width(static_cast<std::uint64_t>(held / LeastGrowth()));
  if (arena_.allocations() - allocations_at_growth_ >= kSeldom &&
      growths_ < kMostPerDoubling * doublings) {
    return 0;
  }
  return static_cast<std::int64_t>(static_cast<double>(held) * options_.growth);
}

void MemorySource::CountGrowth() {
  ++growths_;
  allocations_at_growth_ = arena_.allocations();
}

void MemorySource::NotePeak() {
  peak_held_bytes_ = std::max(peak_held_bytes_, held_bytes());
  if (Backing* const pieces = backing(); pieces != nullptr) pieces->NotePeak();
}

void MemorySource::AddCounts(PoolStats& stats) const {
  stats.reserved_bytes = held_bytes();
  stats.peak_reserved_bytes = peak_held_bytes_;
  stats.peak_budget_bytes = peak_held_bytes_;
  stats.high_water_bytes = high_water();
  stats.growths = growths_;
  stats.remaps = remaps_;
  stats.remapped_bytes = remapped_bytes_;
}

}  // namespace tidepool::pool
