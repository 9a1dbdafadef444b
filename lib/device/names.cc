// Each source of names takes them from the process in blocks. A block is twice as long as the one
// before, so that 64 blocks are more than there can be, and to recognise a name is to look for it
// in them.
#include "lib/device/names.h"

#include <algorithm>

#include "tidepool/device.h"

namespace tidepool::device {
namespace {

constexpr std::uint64_t kFirstBlock = 64;

}  // namespace

std::uint64_t Names::Next() {
  if (blocks_.empty() || next_ == blocks_.back().end) {
    const std::uint64_t count =
        blocks_.empty() ? kFirstBlock : 2 * (blocks_.back().end - blocks_.back().first);
    next_ = TakeDeviceNames(count);
    blocks_.push_back({.first = next_, .end = next_ + count});
  }
  return next_++;
}

bool Names::HasGiven(std::uint64_t name) const {
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    const std::uint64_t given_end = block.end == blocks_.back().end ? next_ : block.end;
    return block.first <= name && name < given_end;
  });
}

}  // namespace tidepool::device
