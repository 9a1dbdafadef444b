// SPDX-License-Identifier: Apache-2.0
// BlockSums: tells whether blocks that come back have the bytes that went away.
#ifndef TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_SUMS_H_
#define TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_SUMS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

namespace tidepool::contents {

// Not thread-safe.
class BlockSums {
 public:
  // Notes the next block.
  void Add(absl::Span<const std::byte> block) { sums_.push_back(SumOf(block)); }
  bool Matches(std::int64_t index, absl::Span<const std::byte> block) const {
    return sums_[static_cast<std::size_t>(index)] == SumOf(block);
  }

 private:
  static constexpr std::size_t kLanes = 4;  // independent, so that a processor adds them at once
  using Words = std::array<std::uint64_t, kLanes>;

  // A step and the end are bijections of each lane, so a change of one word always shows.
  static void AddTo(Words& lanes, const Words& words) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = std::rotl(lanes[i] + words[i] * 0xc2b2ae3d27d4eb4f, 31) * 0x9e3779b185ebca87;
    }
  }
  static std::uint64_t SumOf(absl::Span<const std::byte> block) {
    Words lanes = {1, 2, 3, 4};
    Words words = {};
    std::size_t done = 0;
    for (; block.size() - done >= sizeof(words); done += sizeof(words)) {
      std::memcpy(&words, block.data() + done, sizeof(words));
      AddTo(lanes, words);
    }
    words = {};
    if (done < block.size()) std::memcpy(&words, block.data() + done, block.size() - done);
    AddTo(lanes, words);
    return std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
  }

  std::vector<std::uint64_t> sums_;
};

}  // namespace tidepool::contents

#endif  // TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_SUMS_H_
