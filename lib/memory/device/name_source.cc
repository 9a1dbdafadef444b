// SPDX-License-Identifier: Apache-2.0
// Each source takes names from the process in blocks. Each block is twice as long as the previous
// block of the source, so a source never has more than 64 blocks. HasGiven therefore takes constant
// time.
#include "lib/memory/device/name_source.h"

#include <algorithm>

#include "tidepool/device.h"

namespace tidepool::device {
namespace {

constexpr std::uint64_t kFirstBlock = 64;

}  // namespace

std::uint64_t NameSource::Next() {
  if (blocks_.empty() || next_ == blocks_.back().end) {
    const std::uint64_t count =
        blocks_.empty() ? kFirstBlock : 2 * (blocks_.back().end - blocks_.back().first);
    next_ = TakeDeviceNames(count);
    blocks_.push_back({.first = next_, .end = next_ + count});
  }
  return next_++;
}

bool NameSource::HasGiven(std::uint64_t name) const {
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    const std::uint64_t given_end = block.end == blocks_.back().end ? next_ : block.end;
    return block.first <= name && name < given_end;
  });
}

}  // namespace tidepool::device
