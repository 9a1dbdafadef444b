// Memory back to the device: what is free anywhere, the last first.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

absl::StatusOr<std::int64_t> PoolImpl::Trim(std::int64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  EmptyFronts();
  const std::int64_t held = HeldBytes();
  if (absl::Status status = GiveBack(keep_bytes); !status.ok()) return status;
  return held - HeldBytes();
}

absl::Status PoolImpl::GiveBack(std::int64_t keep_bytes) {
  return options_.memory == PoolMemory::kSegments ? GiveBackSegments(keep_bytes)
                                                  : GiveBackPieces(keep_bytes);
}

absl::Status PoolImpl::GiveBackPieces(std::int64_t keep_bytes) {
  const BlockMap& blocks = arena_.blocks();
  if (absl::Status status = backing_.Retry(); !status.ok()) return status;
  // As long as it has another address, the device does not get a piece's memory.
  if (absl::Status status = AwaitAliases(); !status.ok()) return status;
  for (BlockId id = blocks.Last(); id != kNoBlock;) {
    const BlockId previous = blocks.Previous(id);
    if (!blocks.used(id)) {
      if (absl::Status status = TrimBlock(id, keep_bytes); !status.ok()) return status;
    }
    id = previous;
  }
  return absl::OkStatus();
}

absl::Status PoolImpl::TrimBlock(BlockId block, std::int64_t keep_bytes) {
  const BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  // The last piece may reach beyond the arena, when the budget is no multiple of the granularity.
  const bool is_last = end == blocks.capacity();
  std::vector<Backing::Range> pieces =
      backing_.PiecesIn({begin, is_last ? backing_.Rounded(end) : end});
  std::int64_t left = backing_.held_bytes();
  const auto keeps = [&](const Backing::Range& piece) {
    return (left -= piece.bytes()) < keep_bytes;
  };
  const auto kept = std::find_if(pieces.rbegin(), pieces.rend(), keeps);
  pieces.erase(pieces.begin(), kept.base());
  if (pieces.empty()) return absl::OkStatus();
  absl::Status status = SynchronizeTickets(block, pieces.front().begin, end);
  if (!status.ok()) return status;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    status = backing_.Unmap(piece->begin);
    if (!backing_.HasPiece(piece->begin)) {
      CutOut(block, {piece->begin, std::min(piece->end, blocks.capacity())});
    }
    if (!status.ok()) return status;
  }
  return status;
}

// Takes addresses without memory out of a free block: off the end of the arena, or out of it.
void PoolImpl::CutOut(BlockId block, const Backing::Range& range) {
  BlockMap& blocks = arena_.blocks();
  if (range.end < blocks.capacity()) {
    ExcludeFree(block, range);
    return;
  }
  if (crossing_) {
    const BlockId kept = blocks.offset(block) < range.begin ? block : kNoBlock;
    tickets_.Take(block, range.begin, range.end, kept, kNoBlock);
  }
  blocks.Resize(range.begin);
}

absl::Status PoolImpl::SynchronizeTickets(BlockId block, std::int64_t begin, std::int64_t end) {
  if (!crossing_) return order_.SynchronizeAll();
  absl::Status status;
  tickets_.ForEach(block, begin, end, [&](const Ticket& ticket) {
    status = order_.Synchronize(ticket);
    return status.ok();
  });
  return status;
}

}  // namespace tidepool::pool
