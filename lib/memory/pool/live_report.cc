// SPDX-License-Identifier: Apache-2.0
// Each error says where the address is, because a caller that mixes up pools sees it there.
#include "lib/memory/pool/live_report.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pool/segment_blocks.h"
#include "tidepool/log.h"

namespace tidepool::pool {
namespace {

std::string Name(const void* address) {
  return absl::StrCat("address 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(address)));
}

}  // namespace

absl::Status DoubleFreeError(const void* address, const PoolWords& words) {
  return absl::InvalidArgumentError(absl::StrCat(
      Name(address), " is free already, expected a live ", words.allocation, ": a double free?"));
}

absl::Status NotLiveError(const void* address, const AddressMap& addresses,
                          const blocks::BlockMap& blocks, const PoolWords& words) {
  const std::int64_t offset = addresses.OffsetOf(address);
  if (offset < 0 || offset >= blocks.capacity()) {
    return absl::InvalidArgumentError(absl::StrCat(Name(address), " is not in this ", words.pool,
                                                   ", expected a live ", words.allocation));
  }
  const BlockId id = BlockAt(blocks, offset);
  if (blocks.excluded(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(address), " was given back, expected a live ", words.allocation));
  }
  if (!blocks.used(id)) return DoubleFreeError(address, words);
  return absl::InvalidArgumentError(absl::StrCat(Name(address), " is ", offset - blocks.offset(id),
                                                 " bytes inside a live ", words.allocation,
                                                 ", expected its beginning"));
}

std::string DescribeAddress(const void* address, const AddressMap& addresses,
                            const blocks::BlockMap& blocks) {
  const std::int64_t offset = addresses.OffsetOf(address);
  if (offset < 0) return absl::StrCat(Name(address), " is not in this pool");
  const BlockId id = offset < blocks.capacity() ? BlockAt(blocks, offset) : kNoBlock;
  if (id == kNoBlock || blocks.excluded(id)) {
    return absl::StrCat(Name(address), " is in the pool and has no memory now");
  }
  return absl::StrCat(
      Name(address), " is ", text::Count(offset - blocks.offset(id), "byte"), " inside ",
      blocks.used(id) ? "an allocation" : "free memory", " of ", text::ExactSize(blocks.bytes(id)),
      " at 0x",
      absl::Hex(reinterpret_cast<std::uintptr_t>(addresses.AddressOf(blocks.offset(id)))));
}

void ReportLive(const AddressMap& addresses, const blocks::BlockMap& blocks,
                std::int64_t live_count, const PoolWords& words,
                const std::function<std::string(BlockId)>& describe) {
  constexpr int kListed = 10;
  std::string message =
      absl::StrCat("a ", words.pool, " is destroyed with ", text::ExactSize(blocks.live_bytes()),
                   " live in ", text::Count(live_count, words.allocation));
  int listed = 0;
  for (BlockId id = blocks.First(); id != kNoBlock && listed < kListed; id = blocks.Next(id)) {
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++listed;
    absl::StrAppend(
        &message, "\n  0x",
        absl::Hex(reinterpret_cast<std::uintptr_t>(addresses.AddressOf(blocks.offset(id)))), ": ",
        text::ExactSize(blocks.bytes(id)), describe(id));
  }
  Log(LogLevel::kWarning, message);
}

void ReportKeptMemory(const absl::Status& error, const PoolWords& words) {
  Log(LogLevel::kError,
      absl::StrCat("a ", words.pool, " cannot give its memory back: ", error.ToString()));
}

}  // namespace tidepool::pool
