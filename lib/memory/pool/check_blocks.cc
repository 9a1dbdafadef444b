// SPDX-License-Identifier: Apache-2.0
// One walk over the blocks checks memory and counts.
#include "lib/memory/pool/check_blocks.h"

#include "absl/strings/str_cat.h"

namespace tidepool::pool {

absl::Status CheckBlocks(const blocks::BlockMap& blocks, const BlockCounts& counts,
                         const std::function<std::int64_t(const Range&)>& bytes_in,
                         const std::function<absl::Status(BlockId)>& check_live) {
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (blocks.capacity() - blocks.excluded_bytes() > counts.max_bytes) {
    return absl::InternalError("the arena is larger than the budget");
  }
  std::int64_t live_count = 0;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const Range range = {blocks.offset(id), blocks.offset(id) + blocks.bytes(id)};
    if (bytes_in(range) != (blocks.excluded(id) ? 0 : range.bytes())) {
      return absl::InternalError(absl::StrCat("the block at ", range.begin,
                                              " has memory and is out of the arena, or is in it "
                                              "and has no memory"));
    }
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++live_count;
    if (absl::Status status = check_live(id); !status.ok()) return status;
  }
  if (live_count != counts.live_count) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

}  // namespace tidepool::pool
