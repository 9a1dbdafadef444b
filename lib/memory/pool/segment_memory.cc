// SPDX-License-Identifier: Apache-2.0
// Until a segment is given back it counts against the budget. A thread that lacks just its bytes
// therefore waits for the thread that gives it back.
#include "lib/memory/pool/segment_memory.h"

#include <algorithm>
#include <utility>

#include "lib/base/arithmetic.h"
#include "lib/memory/pool/live_report.h"
#include "lib/memory/pool/segment_blocks.h"

namespace tidepool::pool {
namespace {

// Smaller segments are not taken when there is budget for more: they could serve few requests.
constexpr std::int64_t kLeastSegment = std::int64_t{2} << 20;
constexpr std::int64_t kLeastSegmentPart = 1024;  // of a small budget

}  // namespace

SegmentMemory::~SegmentMemory() {
  const void* told = nullptr;
  const absl::Status status = segments_.Empty([&](void* address, std::int64_t bytes) {
    if (std::exchange(told, address) != address) TellRemoved(address);
    return FreeOfDevice(address, bytes);
  });
  if (!status.ok()) ReportKeptMemory(status, kPoolWords);
}

absl::Status SegmentMemory::TakeInitial(std::int64_t bytes, PoolLocks& locks) {
  return bytes == 0 ? absl::OkStatus()
                    : AddSegment(arena_.arena().Rounded(bytes), 0, locks).status();
}

absl::StatusOr<Placement> SegmentMemory::TakeFor(const Request& request, Growth& growth,
                                                 PoolLocks& locks) {
  if (!arena_.blocks().HasNames(2)) {
    return absl::ResourceExhaustedError("an arena has no more names for blocks");
  }
  const std::int64_t missing = request.bytes - (options_.max_bytes - segments_.held_bytes());
  if (missing > 0) {
    return GiveBackFor(SmallestFreeSegments(arena_.blocks(), segments_, missing), growth, locks);
  }
  const bool was_giving_back = segments_.HasHidden();
  const std::int64_t step = growth.device_is_full ? 0 : std::max(GrowthStep(), LeastGrowth());
  const absl::StatusOr<BlockId> block = AddSegment(request.bytes, step, locks);
  if (absl::IsResourceExhausted(block.status())) {
    growth.device_is_full = true;
    growth.again = was_giving_back;
    absl::StatusOr<Placement> none =
        GiveBackFor(FreeSegments(arena_.blocks(), segments_), growth, locks);
    if (!none.ok() || growth.again) return none;
  }
  if (!block.ok()) return block.status();
  CountGrowth();
  return Placement::At(*block, arena_.blocks().offset(*block));
}

// Gives segments back to the device, so that a new one can come, or waits until another thread has
// given its segments back. The thread looks once more then.
absl::StatusOr<Placement> SegmentMemory::GiveBackFor(const std::vector<BlockId>& segments,
                                                     Growth& growth, PoolLocks& locks) {
  if (segments.empty() && !segments_.HasHidden()) return Placement::None();
  growth.again = growth.must_give_back = true;
  if (!growth.gives_back) return Placement::None();
  for (const BlockId id : segments) SetAsideSegment(id);
  if (absl::Status status = GiveLeaving(Receiver::kDevice, locks); !status.ok()) return status;
  return Placement::None();
}

// Adds a segment of `bytes`, for which there is budget, or of about `step` as far as budget and
// device allow it: a multiple of `bytes`, so that a few such requests fill it.
absl::StatusOr<BlockId> SegmentMemory::AddSegment(std::int64_t bytes, std::int64_t step,
                                                  PoolLocks& locks) {
  const std::int64_t left = options_.max_bytes - segments_.held_bytes();
  std::int64_t wanted = std::min(std::max(bytes, RoundUp(step, bytes)), left / bytes * bytes);
  const auto take = [&] {
    return sharing::TakeUnder(store_.shared(), wanted,
                              [&] { return device_.AllocateMemory(wanted); });
  };
  absl::StatusOr<void*> address = locks.WithoutBooks(take);
  if (absl::IsResourceExhausted(address.status()) && wanted > bytes) {
    wanted = bytes;
    address = locks.WithoutBooks(take);
  }
  if (!address.ok()) return address.status();
  NoteHighWater();
  TellAdded(*address, wanted);
  return IncludeSegment(arena_.blocks(), segments_, segments_.Add(*address, wanted));
}

void SegmentMemory::ProvideMemory(Range range, PoolLocks& locks) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t missing = range.end - blocks.capacity();
  if (missing <= 0 || missing > options_.max_bytes - held_bytes() || !blocks.HasNames(2)) return;
  AddSegment(missing, 0, locks).IgnoreError();
}

absl::Status SegmentMemory::SetAsideAll(std::int64_t keep_bytes, const Range& kept, PoolLocks&) {
  const std::vector<BlockId> segments = FreeSegments(arena_.blocks(), segments_);
  std::int64_t left = segments_.held_bytes();
  for (auto id = segments.rbegin(); id != segments.rend(); ++id) {
    const std::int64_t begin = arena_.blocks().offset(*id);
    const std::int64_t bytes = arena_.blocks().bytes(*id);
    if (left - bytes < keep_bytes || Overlap({begin, begin + bytes}, kept)) continue;
    left -= bytes;
    SetAsideSegment(*id);
  }
  return absl::OkStatus();
}

void SegmentMemory::SetAsideSegment(BlockId block) {
  const std::int64_t begin = arena_.blocks().offset(block);
  SetAside(block, {begin, begin + arena_.blocks().bytes(block)});
}

// Calls the device without any lock: cudaFree waits for all work of the device.
absl::Status SegmentMemory::Give(const Range& range, Receiver /*receiver*/, bool& is_held,
                                 PoolLocks& locks) {
  void* const address = segments_.Hide(range);
  TellRemoved(address);
  absl::Status status = locks.WithoutBoth([&] { return FreeOfDevice(address, range.bytes()); });
  if (!status.ok()) {
    segments_.Show(range);
    TellAdded(address, range.bytes());
    return status;
  }
  is_held = false;
  NoteHighWater();
  segments_.Remove(range);
  return status;
}

absl::Status SegmentMemory::FreeOfDevice(void* address, std::int64_t bytes) {
  return sharing::GiveUnder(store_.shared(), bytes, [&] { return device_.FreeMemory(address); });
}

std::int64_t SegmentMemory::LeastGrowth() const {
  return arena_.arena().Rounded(
      std::min(kLeastSegment, options_.max_bytes / kLeastSegmentPart + 1));
}

std::int64_t SegmentMemory::high_water() const {
  const std::int64_t end = arena_.arena().high_water();
  if (end == noted_end_) return noted_high_water_;
  return std::max(noted_high_water_, end - segments_.FenceBytesBefore(end));
}

void SegmentMemory::NoteHighWater() {
  noted_high_water_ = high_water();
  noted_end_ = arena_.arena().high_water();
}

}  // namespace tidepool::pool
