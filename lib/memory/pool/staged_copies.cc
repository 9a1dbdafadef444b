// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/pool/staged_copies.h"

#include <algorithm>

#include "lib/base/arithmetic.h"

namespace tidepool::pool {

StagedCopies::StagedCopies(Device& device, ContentsStore& store, std::byte* memory, std::byte* host,
                           Stream stream)
    : device_(device), store_(store), memory_(memory), host_(host), stream_(stream) {}

absl::Status StagedCopies::MakeSlots() {
  const auto bytes = static_cast<std::size_t>(store_.block_bytes());
  std::byte* host = host_;
  for (Slot& slot : slots_) {
    absl::Status status = slot.copied.Ensure(device_, EventKind::kWaited);
    if (!status.ok()) return status;
    slot.host = {host, bytes};
    host += bytes;
  }
  return absl::OkStatus();
}

std::int64_t StagedCopies::BlocksOf(std::int64_t bytes) const {
  return CeilDivide(bytes, store_.block_bytes());
}

absl::Span<std::byte> StagedCopies::BlockIn(const Slot& slot, std::int64_t block,
                                            std::int64_t bytes) const {
  return slot.host.subspan(0, static_cast<std::size_t>(bytes - block * store_.block_bytes()));
}

std::vector<SavedPart> StagedCopies::PiecesIn(std::int64_t block,
                                              absl::Span<const SavedPart> parts) {
  const std::int64_t begin = block * store_.block_bytes();
  const std::int64_t end = begin + store_.block_bytes();
  std::vector<SavedPart> pieces;
  for (; next_part_ < parts.size() && parts[next_part_].offset < end; ++next_part_) {
    const SavedPart& part = parts[next_part_];
    const std::int64_t part_end = part.offset + part.memory.bytes();
    const Range common = {std::max(begin, part.offset), std::min(end, part_end)};
    const std::int64_t shift = part.memory.begin - part.offset;
    pieces.push_back({{common.begin + shift, common.end + shift}, common.begin - begin});
    if (part_end > end) break;  // the next block has the rest
  }
  return pieces;
}

absl::Status StagedCopies::Copy(const Slot& slot, absl::Span<const SavedPart> pieces,
                                CopyDirection direction) {
  for (const SavedPart& piece : pieces) {
    std::byte* const memory = memory_ + piece.memory.begin;
    std::byte* const host = slot.host.data() + piece.offset;
    const bool is_out = direction == CopyDirection::kFromDevice;
    absl::Status status = device_.Copy(is_out ? host : memory, is_out ? memory : host,
                                       piece.memory.bytes(), direction, stream_);
    if (!status.ok()) return status;
  }
  return device_.RecordEvent(slot.copied.get(), stream_);
}

// While the store has a block, the device copies the next one.
absl::Status StagedCopies::Save(absl::Span<const SavedPart> parts, std::int64_t bytes) {
  absl::Status status = store_.Begin(bytes);
  if (status.ok()) status = MakeSlots();
  const std::int64_t blocks = BlocksOf(bytes);
  for (std::int64_t block = 0; status.ok() && block <= blocks; ++block) {
    if (block < blocks) {
      status = Copy(SlotOf(block), PiecesIn(block, parts), CopyDirection::kFromDevice);
    }
    if (!status.ok() || block == 0) continue;
    const std::int64_t last = block - 1;
    status = device_.SynchronizeEvent(SlotOf(last).copied.get());
    if (status.ok()) status = store_.Put(last, BlockIn(SlotOf(last), last, bytes));
  }
  return status;
}

// Blocks without a part are not read.
absl::Status StagedCopies::Restore(absl::Span<const SavedPart> parts, std::int64_t bytes,
                                   absl::FunctionRef<absl::Status(std::int64_t)> queued) {
  absl::Status status = MakeSlots();
  std::int64_t turn = 0;
  for (std::int64_t block = 0; status.ok() && block < BlocksOf(bytes); ++block) {
    const std::vector<SavedPart> pieces = PiecesIn(block, parts);
    if (pieces.empty()) continue;
    const Slot& slot = SlotOf(turn++);
    status = device_.SynchronizeEvent(slot.copied.get());
    if (status.ok()) status = store_.Get(block, BlockIn(slot, block, bytes));
    if (status.ok()) status = Copy(slot, pieces, CopyDirection::kToDevice);
    if (status.ok()) status = queued(pieces.back().memory.end);
  }
  for (const Slot& slot : slots_) {
    if (status.ok()) status = device_.SynchronizeEvent(slot.copied.get());
  }
  return status;
}

}  // namespace tidepool::pool
