// SPDX-License-Identifier: Apache-2.0
// The packing of an arena's blocks into 64-bit entries: the size of a granule, the bits of an
// address counted in granules, and the bits that remain for the name of a block.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_GEOMETRY_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_GEOMETRY_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tidepool/placement.h"

namespace tidepool::blocks {

// An arena has at most 2^44 granules: 8 PiB at 512 bytes, 16 TiB at 1 byte.
inline constexpr int kMaxAddressBits = 44;
// An arena has at most 2^26 blocks, and fewer when addresses need the bits, but at least 2^20.
inline constexpr int kMaxBlockBits = 26;

inline int BitWidth(std::uint64_t value) { return 64 - std::countl_zero(value); }

struct Geometry {
  // `alignment` is a power of two; `capacity` a multiple of it.
  Geometry(std::int64_t capacity, std::int64_t alignment)
      : granule_shift(std::countr_zero(static_cast<std::uint64_t>(alignment))),
        address_bits(BitWidth(Granules(capacity))),
        block_bits(std::min(64 - address_bits, kMaxBlockBits)),
        block_mask((std::uint64_t{1} << block_bits) - 1) {}

  std::uint64_t Granules(std::int64_t bytes) const {
    return static_cast<std::uint64_t>(bytes) >> granule_shift;
  }
  // At least the capacity.
  std::int64_t MostBytes() const {
    return ((std::int64_t{1} << address_bits) - 1) << granule_shift;
  }
  BlockId BlockOf(std::uint64_t entry) const { return static_cast<BlockId>(entry & block_mask); }
  std::int64_t max_blocks() const { return std::int64_t{1} << block_bits; }

  int granule_shift;
  int address_bits;
  int block_bits;
  std::uint64_t block_mask;
};

// Returns the largest capacity at `alignment`, which is also less than 2^62 bytes.
inline std::int64_t MaxArenaBytes(std::int64_t alignment) {
  const int shift = std::countr_zero(static_cast<std::uint64_t>(alignment));
  return ((std::int64_t{1} << std::min(kMaxAddressBits, 62 - shift)) - 1) << shift;
}

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_GEOMETRY_H_
