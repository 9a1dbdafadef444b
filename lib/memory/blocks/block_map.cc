// SPDX-License-Identifier: Apache-2.0
// Splits, merges and indexes the blocks of one arena.
#include "lib/memory/blocks/block_map.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::blocks {

BlockMap::BlockMap(std::int64_t capacity, std::int64_t alignment, std::int64_t max_capacity)
    : geometry_(max_capacity, alignment),
      alignment_(alignment),
      few_enough_(FewBlocks::Suits(geometry_) ? FewBlocks::kMost / 2 : -1),
      few_(geometry_) {
  assert(alignment > 0 && (alignment & (alignment - 1)) == 0);
  assert(capacity >= 0 && capacity <= max_capacity && capacity % alignment == 0);
  assert(max_capacity <= MaxArenaBytes(alignment) && max_capacity % alignment == 0);
  blocks_ = {Block(0, true, kNoBlock, kBack), Block(capacity, true, kFront, kNoBlock)};
  if (capacity == 0) return;
  blocks_.push_back(Block(0, false, kFront, kBack));
  blocks_[kFront].next = 2;
  blocks_[kBack].previous = 2;
}

BlockMap::BlockMap(const BlockMap& other)
    : FreeBlocks(other),
      geometry_(other.geometry_),
      alignment_(other.alignment_),
      live_bytes_(other.live_bytes_),
      blocks_(other.blocks_),
      excluded_(other.excluded_),
      excluded_bytes_(other.excluded_bytes_),
      spare_(other.spare_),
      spares_(other.spares_),
      reserved_names_(other.reserved_names_),
      few_enough_(other.few_enough_),
      few_(geometry_) {}

// The next three functions make no call if there are few free blocks, or the block is held back,
// and no policy asks by address.
inline void BlockMap::IndexFree(BlockId id, Change change) {
  if (is_few_ && few_.full()) [[unlikely]]
    MoveToSizeIndex();
  if (is_few_) {
    few_.Add(offset(id), bytes(id), id);
  } else if (by_size_ != nullptr) {
    HoldBack(id, change);
  }
  if (by_address_ != nullptr) InsertByAddress(id);
}

inline void BlockMap::UnindexFree(BlockId id) {
  if (is_few_) {
    few_.Remove(id);
  } else if (!RenameHeld(id, kFront) && by_size_ != nullptr) {
    EraseBySize(offset(id), bytes(id), id);
  }
  if (by_address_ != nullptr) EraseByAddress(id);
}

// Replaces a free block in the indexes by `id`, which lies between the same used neighbours.
inline void BlockMap::ReindexFree(BlockId old_id, std::int64_t old_offset, std::int64_t old_bytes,
                                  BlockId id, Change change) {
  if (is_few_) {
    few_.Replace(old_id, offset(id), bytes(id), id);
  } else if (!RenameHeld(old_id, id) && by_size_ != nullptr) {
    EraseBySize(old_offset, old_bytes, old_id);
    HoldBack(id, change);
  }
  if (by_address_ != nullptr) ReplaceByAddress(old_offset, old_id, id);
}

// Holds `id` back from the index by size, and inserts the block that was held back there before.
inline void BlockMap::HoldBack(BlockId id, Change change) {
  const BlockId before = std::exchange(held_[change], id);
  if (before != kFront) InsertBySize(before);
}

// Replaces `old_id` by `id` if `old_id` is held back. Returns whether it was.
inline bool BlockMap::RenameHeld(BlockId old_id, BlockId id) {
  for (BlockId& held : held_) {
    if (held == old_id) {
      held = id;
      return true;
    }
  }
  return false;
}

void BlockMap::InsertBySize(BlockId id) { by_size_->Insert(offset(id), bytes(id), id); }
void BlockMap::EraseBySize(std::int64_t offset, std::int64_t bytes, BlockId id) {
  by_size_->Erase(offset, bytes, id);
}
void BlockMap::InsertByAddress(BlockId id) { by_address_->Insert(offset(id), bytes(id), id); }
void BlockMap::EraseByAddress(BlockId id) { by_address_->Erase(offset(id), id); }
void BlockMap::ReplaceByAddress(std::int64_t old_offset, BlockId old_id, BlockId id) {
  by_address_->Replace(old_offset, old_id, offset(id), bytes(id), id);
}

// Cuts a part out of a free block. The part is marked as used and is in no index yet.
inline BlockId BlockMap::Cut(const Placement& placement, std::int64_t wanted) {
  const BlockId id = placement.block;
  const std::int64_t old_offset = offset(id);
  const std::int64_t old_bytes = bytes(id);
  const std::int64_t front = OffsetOf(placement, wanted) - old_offset;
  const std::int64_t back = old_bytes - front - wanted;
  assert(!used(id) && wanted > 0 && front >= 0 && back >= 0);
  assert(wanted % alignment_ == 0 && front % alignment_ == 0);

  const BlockId taken = front > 0 ? Split(id, front) : id;
  const BlockId rest = back > 0 ? Split(taken, wanted) : kNoBlock;
  blocks_[taken].set_used();
  if (front > 0) {
    ReindexFree(id, old_offset, old_bytes, id, kCut);
    if (back > 0) IndexFree(rest, kCut);
  } else if (back > 0) {
    ReindexFree(id, old_offset, old_bytes, rest, kCut);
  } else {
    UnindexFree(id);
  }
  return taken;
}

// Allocate, at the low end of a block that only the array of few blocks indexes.
inline BlockId BlockMap::AllocateOfFew(BlockId id, std::int64_t wanted) {
  if (spare_ == kNoBlock) [[unlikely]]
    MakeSpare();
  Block* const all = blocks_.data();
  Block& taken = all[id];
  const BlockId next = taken.next;
  const std::int64_t begin = taken.offset();
  const std::int64_t rest_bytes = all[next].offset() - begin - wanted;
  assert(!taken.used() && wanted > 0 && wanted % alignment_ == 0 && rest_bytes >= 0);
  taken.set_used();
  if (rest_bytes > 0) {
    const BlockId rest = std::exchange(spare_, all[spare_].next);
    --spares_;
    all[rest] = Block(begin + wanted, false, id, next);
    taken.next = rest;
    all[next].previous = rest;
    few_.Replace(id, begin + wanted, rest_bytes, rest);
  } else {
    few_.Remove(id);
  }
  by_start_->Insert(id, begin, blocks_);
  live_bytes_ += wanted;
  return id;
}

BlockId BlockMap::Allocate(const Placement& placement, std::int64_t wanted) {
  const bool is_low = placement.where == Placement::Where::kLowEnd;
  if (IndexesFewAlone() && is_low && by_start_ != nullptr) {
    return AllocateOfFew(placement.block, wanted);
  }
  const BlockId taken = Cut(placement, wanted);
  if (by_start_ != nullptr) by_start_->Insert(taken, offset(taken), blocks_);
  live_bytes_ += wanted;
  return taken;
}

BlockId BlockMap::Exclude(const Placement& placement, std::int64_t wanted) {
  BlockId taken = Cut(placement, wanted);
  excluded_bytes_ += wanted;
  if (excluded(blocks_[taken].previous)) {
    taken = blocks_[taken].previous;
    AbsorbNext(taken);
  }
  if (excluded(blocks_[taken].next)) {
    excluded_.erase(blocks_[taken].next);
    AbsorbNext(taken);
  }
  excluded_.insert(taken);
  return taken;
}

BlockId BlockMap::Include(BlockId id, std::int64_t begin, std::int64_t end) {
  assert(excluded(id) && offset(id) <= begin && begin < end && end <= offset(blocks_[id].next));
  if (end < offset(blocks_[id].next)) {
    const BlockId rest = Split(id, end - offset(id));
    blocks_[rest].set_used();
    excluded_.insert(rest);
  }
  BlockId included = id;
  if (begin > offset(id)) {
    included = Split(id, begin - offset(id));
    blocks_[included].set_used();
  } else {
    excluded_.erase(id);
  }
  excluded_bytes_ -= end - begin;
  live_bytes_ += end - begin;  // for a moment
  return Merge(included);
}

std::int64_t BlockMap::OffsetOf(const Placement& placement, std::int64_t wanted) const {
  if (placement.where == Placement::Where::kHighEnd) {
    return offset(blocks_[placement.block].next) - wanted;
  }
  return placement.where == Placement::Where::kOffset ? placement.offset : offset(placement.block);
}

BlockId BlockMap::Free(BlockId id) {
  if (by_start_ != nullptr) by_start_->Take(offset(id), blocks_);
  return Merge(id);
}

BlockId BlockMap::FreeAt(std::int64_t begin) {
  const BlockId id = by_start().Take(begin, blocks_);
  return id == kNoBlock ? kNoBlock : Merge(id);
}

// Merge, when only the array of few blocks indexes free blocks.
inline BlockId BlockMap::MergeOfFew(BlockId id) {
  Block* const all = blocks_.data();
  Block& freed = all[id];
  const BlockId previous = freed.previous;
  const BlockId next = freed.next;
  const std::int64_t begin = freed.offset();
  const bool joins_next = !all[next].used();
  assert(freed.used() && id > kBack);
  live_bytes_ -= all[next].offset() - begin;
  freed.set_free();
  if (all[previous].used()) {
    if (joins_next) {
      AbsorbNext(id);
      few_.Replace(next, begin, all[freed.next].offset() - begin, id);
    } else {
      IndexFree(id, kFreed);
    }
    return id;
  }
  if (joins_next) {
    few_.Remove(next);
    AbsorbNext(id);
  }
  AbsorbNext(previous);
  few_.Replace(previous, offset(previous), bytes(previous), previous);
  return previous;
}

// Frees a used block and merges it with its free neighbours. Returns the resulting free block.
BlockId BlockMap::Merge(BlockId id) {
  if (IndexesFewAlone()) return MergeOfFew(id);
  assert(used(id) && id > kBack);
  const BlockId previous = blocks_[id].previous;
  const BlockId next = blocks_[id].next;
  const bool joins_previous = !used(previous);
  const bool joins_next = !used(next);
  blocks_[id].set_free();
  live_bytes_ -= bytes(id);
  if (joins_previous) {
    const std::int64_t old_bytes = bytes(previous);
    if (joins_next) {
      UnindexFree(next);
      AbsorbNext(id);
    }
    AbsorbNext(previous);
    ReindexFree(previous, offset(previous), old_bytes, previous, kFreed);
    return previous;
  }
  if (joins_next) {
    const std::int64_t old_offset = offset(next);
    const std::int64_t old_bytes = bytes(next);
    AbsorbNext(id);
    ReindexFree(next, old_offset, old_bytes, id, kFreed);
  } else {
    IndexFree(id, kFreed);
  }
  return id;
}

void BlockMap::Resize(std::int64_t capacity) {
  BlockId last = blocks_[kBack].previous;
  assert(capacity >= (used(last) ? offset(kBack) : offset(last)) && capacity % alignment_ == 0);
  if (!used(last)) {
    UnindexFree(last);
  } else if (capacity > offset(kBack)) {
    last = Split(last, bytes(last));
  }
  blocks_[kBack] = Block(capacity, true, last, kNoBlock);
  if (used(last)) return;
  if (bytes(last) > 0) {
    IndexFree(last, kCut);
  } else {
    AbsorbNext(blocks_[last].previous);
  }
}

BlockId BlockMap::SplitUsed(BlockId id, std::int64_t wanted) {
  assert(used(id) && !excluded(id) && 0 < wanted && wanted < bytes(id));
  const BlockId rest = Split(id, wanted);
  blocks_[rest].set_used();
  if (by_start_ != nullptr) by_start_->Insert(rest, offset(rest), blocks_);
  return rest;
}

// Cuts `id` to its first `bytes` and returns a new block with the rest.
BlockId BlockMap::Split(BlockId id, std::int64_t bytes) {
  const BlockId next = blocks_[id].next;
  if (spare_ == kNoBlock) [[unlikely]]
    MakeSpare();
  const BlockId rest_id = spare_;
  spare_ = blocks_[rest_id].next;
  --spares_;
  blocks_[rest_id] = Block(offset(id) + bytes, false, id, next);
  blocks_[id].next = rest_id;
  blocks_[next].previous = rest_id;
  return rest_id;
}

void BlockMap::MakeSpare() {
  spare_ = static_cast<BlockId>(blocks_.size());
  assert(spare_ < geometry_.max_blocks() - 1);
  // By a quarter: half of a vector that doubles may be unused.
  if (blocks_.size() == blocks_.capacity())
    blocks_.reserve(blocks_.size() + blocks_.size() / 4 + 8);
  blocks_.push_back(Block(0, false, kNoBlock, kNoBlock));
  ++spares_;
  const auto names = static_cast<std::int64_t>(blocks_.size());
  shrink_at_ = std::max(kFewestToShrink, names - names / kSparse);
}

std::size_t BlockMap::Shrink() {
  std::vector<bool> is_taken(blocks_.size());
  is_taken[kFront] = is_taken[kBack] = true;
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) is_taken[id] = true;
  while (!is_taken.back()) is_taken.pop_back();
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(is_taken.size()), blocks_.end());
  blocks_.shrink_to_fit();
  spare_ = kNoBlock;
  spares_ = 0;
  for (auto id = static_cast<BlockId>(is_taken.size()); id-- > 0;) {
    if (is_taken[id]) continue;
    blocks_[id].next = std::exchange(spare_, id);
    ++spares_;
  }
  DropIndexes();
  by_start_ = nullptr;
  // When a high name is in use, the next try comes after most of the others were freed, and the
  // last one when a single block is left.
  constexpr std::int64_t kFewestNames = 3;
  const auto names = static_cast<std::int64_t>(blocks_.size());
  shrink_at_ =
      std::max(kFewestToShrink, names - std::max(kFewestNames, (names - spares_) / kSparse));
  return blocks_.size();
}

// Merges the next block into `id`.
void BlockMap::AbsorbNext(BlockId id) {
  const BlockId gone = blocks_[id].next;
  blocks_[id].next = blocks_[gone].next;
  blocks_[blocks_[gone].next].previous = id;
  blocks_[gone].next = spare_;
  spare_ = gone;
  ++spares_;
}

void BlockMap::MakeSizeIndex() {
  by_size_ = std::make_unique<SizeIndex>(geometry_);
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) {
    if (!used(id)) by_size_->Insert(offset(id), bytes(id), id);
  }
}

// Moves all free blocks from the index by size to the array of few.
void BlockMap::MoveToFew() {
  for (BlockId id = SmallestIndexed(alignment_); id != kNoBlock; id = NextIndexed(id)) {
    few_.Add(offset(id), bytes(id), id);
  }
  for (int slot = 0; slot < few_.count(); ++slot) {
    const BlockId id = few_.block(slot);
    if (!RenameHeld(id, kFront)) EraseBySize(offset(id), bytes(id), id);
  }
  is_few_ = true;
}

// Moves them back.
void BlockMap::MoveToSizeIndex() {
  for (int slot = 0; slot < few_.count(); ++slot) InsertBySize(few_.block(slot));
  few_.Clear();
  is_few_ = false;
}

void BlockMap::MakeAddressIndex() {
  by_address_ = std::make_unique<AddressIndex>(geometry_);
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) {
    if (!used(id)) by_address_->Insert(offset(id), bytes(id), id);
  }
}

void BlockMap::MakeStartTable() {
  by_start_ = std::make_unique<StartTable>();
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) {
    if (used(id) && !excluded(id)) by_start_->Insert(id, offset(id), blocks_);
  }
}

BlockId BlockMap::SmallestFit(std::int64_t wanted) {
  if (is_few_) return SmallestOfFew(wanted);
  if (by_size().size() <= few_enough_) [[unlikely]] {
    MoveToFew();
    return SmallestOfFew(wanted);
  }
  return SmallestIndexed(wanted);
}

inline BlockId BlockMap::SmallestOfFew(std::int64_t wanted) {
  answers_by_clue_ = 0;
  return few_.SmallestFit(wanted);
}

inline BlockId BlockMap::SmallestIndexed(std::int64_t wanted) {
  const BlockId id = by_size_->SmallestFit(wanted);
  const Fit indexed = id != kNoBlock ? FitOf(id, wanted) : Fit{kNoBlock, INT64_MAX, 0};
  const Fit freed = FitOf(held_[kFreed], wanted);
  const Fit cut = FitOf(held_[kCut], wanted);
  // Branches on purpose: a choice without a branch would make the next instructions wait for all
  // three values.
  if (IsBetter(freed, indexed) || IsBetter(cut, indexed)) [[unlikely]]
    return held_[IsBetter(freed, cut) ? kFreed : kCut];
  return id;
}

BlockId BlockMap::ExactFit(std::int64_t wanted) {
  if (is_few_) {
    const BlockId id = SmallestOfFew(wanted);
    return id != kNoBlock && bytes(id) == wanted ? id : kNoBlock;
  }
  BlockId lowest = by_size().ExactFit(wanted);
  for (const BlockId held : held_) {
    if (bytes(held) != wanted) continue;
    if (lowest == kNoBlock || offset(held) < offset(lowest)) lowest = held;
  }
  return lowest;
}

BlockId BlockMap::Largest() {
  by_size();
  return LargestBySize();
}

BlockId BlockMap::LargestBySize() const {
  if (is_few_) return LargestOfFew();
  BlockId largest = by_size_->Largest();
  for (const BlockId held : held_) {
    if (held == kFront) continue;
    if (largest == kNoBlock || bytes(held) > bytes(largest)) largest = held;
  }
  return largest;
}

BlockId BlockMap::LargestOfFew() const {
  BlockId largest = kNoBlock;
  for (int slot = 0; slot < few_.count(); ++slot) {
    const BlockId id = few_.block(slot);
    if (largest == kNoBlock || SizeAndOffset(id) > SizeAndOffset(largest)) largest = id;
  }
  return largest;
}

BlockId BlockMap::LowestFit(std::int64_t bytes) { return by_address().LowestFit(bytes); }
BlockId BlockMap::HighestFit(std::int64_t bytes) { return by_address().HighestFit(bytes); }
BlockId BlockMap::NextBySize(BlockId block) {
  return is_few_ ? NextOfFew(block) : NextIndexed(block);
}

BlockId BlockMap::NextOfFew(BlockId block) const {
  BlockId next = kNoBlock;
  for (int slot = 0; slot < few_.count(); ++slot) {
    const BlockId id = few_.block(slot);
    if (SizeAndOffset(id) <= SizeAndOffset(block)) continue;
    if (next == kNoBlock || SizeAndOffset(id) < SizeAndOffset(next)) next = id;
  }
  return next;
}

BlockId BlockMap::NextIndexed(BlockId block) {
  BlockId next = by_size().Next(offset(block), bytes(block), block);
  for (const BlockId held : held_) {
    if (held == kFront || SizeAndOffset(held) <= SizeAndOffset(block)) continue;
    if (next == kNoBlock || SizeAndOffset(held) < SizeAndOffset(next)) next = held;
  }
  return next;
}

std::int64_t BlockMap::LargestBytes() const {
  if (by_address_ != nullptr) return by_address_->LargestBytes();
  if (by_size_ != nullptr) {
    const BlockId block = LargestBySize();
    return block == kNoBlock ? 0 : bytes(block);
  }
  std::int64_t largest = 0;
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) {
    if (!used(id)) largest = std::max(largest, bytes(id));
  }
  return largest;
}

BlockId BlockMap::Covering(std::int64_t begin, std::int64_t length, Clue* clue) {
  if (clue != nullptr) {
    const BlockId found = CoveringByClue(begin, begin + length, *clue);
    if (found != kNoBlock) {
      if (++answers_by_clue_ > blocks_.size()) DropIndexes();
      return found;
    }
  }
  const BlockId id = by_address().AtOrBelow(begin);
  if (id == kNoBlock || begin + length > offset(id) + bytes(id)) return kNoBlock;
  if (clue != nullptr) {
    const BlockId before = blocks_[id].previous;
    clue->used_below = before == kFront ? Clue::kFirst : offset(before);
  }
  return id;
}

BlockId BlockMap::CoveringByClue(std::int64_t begin, std::int64_t end, const Clue& clue) {
  if (clue.used_below == Clue::kNone) return kNoBlock;
  const BlockId before = clue.used_below == Clue::kFirst ? kFront : Find(clue.used_below);
  if (before == kNoBlock) return kNoBlock;
  const BlockId id = blocks_[before].next;
  if (used(id) || offset(id) > begin) return kNoBlock;
  return end <= offset(id) + bytes(id) ? id : kNoBlock;
}

// Drops the indexes after about as many questions without them as a rebuild costs.
void BlockMap::DropIndexes() {
  by_size_ = nullptr;
  by_address_ = nullptr;
  few_.Clear();
  is_few_ = false;
  held_.fill(kFront);
  answers_by_clue_ = 0;
}

BlockId BlockMap::Find(std::int64_t begin) { return by_start().Find(begin, blocks_); }

absl::Status BlockMap::CheckInvariants() const {
  if (absl::Status status = CheckList(); !status.ok()) return status;
  return CheckIndexes();
}

absl::Status BlockMap::CheckList() const {
  std::int64_t end = 0;
  std::int64_t live = 0;
  std::int64_t out = 0;
  BlockId previous = kFront;
  for (BlockId id = First(); id != kNoBlock; previous = id, id = Next(id)) {
    const auto violation = [&](const char* what) {
      return absl::InternalError(absl::StrCat("block ", id, " at ", offset(id), ": ", what));
    };
    if (blocks_[id].previous != previous) return violation("the previous block does not link here");
    if (offset(id) != end) return violation("does not begin where the previous block ends");
    if (bytes(id) <= 0 || bytes(id) % alignment_ != 0) return violation("bad size");
    if (!used(id) && !used(previous)) return violation("free beside a free block");
    if (excluded(id) && excluded(previous)) return violation("excluded beside an excluded block");
    if (excluded(id) && !used(id)) return violation("excluded and free");
    end += bytes(id);
    (excluded(id) ? out : live) += used(id) ? bytes(id) : 0;
  }
  if (end != capacity()) return absl::InternalError("blocks do not tile the arena");
  if (blocks_[kBack].previous != previous)
    return absl::InternalError("the last block is not linked");
  if (live != live_bytes_) return absl::InternalError("live bytes differ from the list");
  if (out != excluded_bytes_) return absl::InternalError("excluded bytes differ from the list");
  return absl::OkStatus();
}

std::int64_t BlockMap::Count(bool used_ones) const {
  std::int64_t count = 0;
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) count += used(id) == used_ones ? 1 : 0;
  return count;
}

absl::Status BlockMap::CheckIndexes() const {
  std::int64_t held = 0;
  for (const BlockId id : held_) {
    if (id == kFront) continue;
    if (by_size_ == nullptr || used(id))
      return absl::InternalError("a block held back is not free");
    ++held;
  }
  const std::int64_t few = few_.count();
  if (few != (is_few_ ? Count(false) : 0)) {
    return absl::InternalError("the array of few blocks is of another length than the list");
  }
  if (by_size_ != nullptr && !by_size_->IsValid(Count(false) - held - few)) {
    return absl::InternalError("size index is malformed or of another length than the list");
  }
  if (by_address_ != nullptr && !by_address_->IsValid(Count(false))) {
    return absl::InternalError("address index is malformed or of another length than the list");
  }
  if (by_start_ != nullptr &&
      by_start_->size() != Count(true) - static_cast<std::int64_t>(excluded_.size())) {
    return absl::InternalError("start table is of another length than the list");
  }
  for (BlockId id = First(); id != kNoBlock; id = Next(id)) {
    const BlockId start = used(id) && !excluded(id) ? id : kNoBlock;
    if (by_start_ != nullptr && by_start_->Find(offset(id), blocks_) != start) {
      return absl::InternalError(absl::StrCat("start table is wrong about block ", id));
    }
    if (used(id)) continue;
    if (is_few_ && !few_.Holds(offset(id), bytes(id), id)) {
      return absl::InternalError(absl::StrCat("the array of few blocks is wrong about block ", id));
    }
    const bool held_back = is_few_ || std::find(held_.begin(), held_.end(), id) != held_.end();
    if (by_size_ != nullptr && by_size_->Contains(offset(id), bytes(id), id) == held_back) {
      return absl::InternalError(absl::StrCat("size index is wrong about block ", id));
    }
    if (by_address_ != nullptr && !by_address_->Contains(offset(id), id)) {
      return absl::InternalError(absl::StrCat("address index misses block ", id));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidepool::blocks
