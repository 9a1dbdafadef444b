// SPDX-License-Identifier: Apache-2.0
// Each error says where the address is, because a caller that mixes up pools sees it there.
#include "lib/memory/pool/live_report.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pool/segment_blocks.h"

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

void ReportLive(const AddressMap& addresses, const blocks::BlockMap& blocks,
                std::int64_t live_count, const PoolWords& words,
                const std::function<std::string(BlockId)>& describe) {
  constexpr int kListed = 10;
  std::fprintf(stderr, "tidepool: a %s is destroyed with %s live in %s\n", words.pool,
               text::ExactSize(blocks.live_bytes()).c_str(),
               text::Count(live_count, words.allocation).c_str());
  int listed = 0;
  for (BlockId id = blocks.First(); id != kNoBlock && listed < kListed; id = blocks.Next(id)) {
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++listed;
    std::fprintf(stderr, "  %p: %s%s\n", static_cast<void*>(addresses.AddressOf(blocks.offset(id))),
                 text::ExactSize(blocks.bytes(id)).c_str(), describe(id).c_str());
  }
}

void ReportKeptMemory(const absl::Status& error, const PoolWords& words) {
  std::fprintf(stderr, "tidepool: a %s cannot give its memory back: %s\n", words.pool,
               error.ToString().c_str());
}

}  // namespace tidepool::pool
