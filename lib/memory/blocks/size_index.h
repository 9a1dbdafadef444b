// SPDX-License-Identifier: Apache-2.0
// An index of free blocks by size: two-level bins over bitmaps, and an ordered tree in each bin.
//
// A size of g granules falls into bin g when g < 128, else into one of 64 equal bins of its octave
// [2^k, 2^(k+1)), as in TLSF (Masmano et al., ECRTS 2004) and OffsetAllocator. Unlike in those, a
// bin is ordered by (size, address), so every answer is exact: the smallest block that fits, the
// lowest address among equals. Most bins hold a few blocks in one cache line; a crowded bin stays
// logarithmic.
//
// Size, address and name fit into 64 bits because blocks do not overlap: two blocks of 2^k granules
// or more begin at least 2^k granules apart, so in their bin the low k bits of the address are not
// needed for the order. These bits make room for the bits of the size that the bin does not
// determine, which are fewer.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_SIZE_INDEX_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_SIZE_INDEX_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/memory/blocks/entry_tree.h"
#include "lib/memory/blocks/geometry.h"

namespace tidepool::blocks {

class SizeIndex {
 public:
  explicit SizeIndex(const Geometry& geometry)
      : geometry_(geometry), bins_(BinOf(geometry.MostBytes()).index + 1) {}

  // O(log n) for n blocks in one bin.
  void Insert(std::int64_t offset, std::int64_t bytes, BlockId block) {
    const Place place = PlaceOf(offset, bytes, block);
    const unsigned bin = place.bin;
    Forget(bin);
    ++size_;
    bins_[bin].Insert(place.entry, 0, nodes_);
    occupied_[bin / kWord] |= std::uint64_t{1} << (bin % kWord);
    words_ |= std::uint64_t{1} << (bin / kWord);
  }

  // The block is here. O(log n).
  void Erase(std::int64_t offset, std::int64_t bytes, BlockId block) {
    const Place place = PlaceOf(offset, bytes, block);
    const unsigned bin = place.bin;
    Forget(bin);
    --size_;
    bins_[bin].Erase(place.entry, nodes_);
    const std::uint64_t emptied = bins_[bin].empty() ? 1 : 0;
    std::uint64_t& occupied = occupied_[bin / kWord];
    occupied &= ~(emptied << (bin % kWord));
    words_ &= ~(std::uint64_t{occupied == 0 ? 1U : 0U} << (bin / kWord));
  }

  // Returns kNoBlock when no block fits. O(log n).
  BlockId SmallestFit(std::int64_t bytes) {
    const Place least = PlaceOf(0, bytes, 0);
    if (IsOccupied(least.bin)) {
      const FreeEntry entry = AtOrAbove(least);
      if (entry != kNoEntry) return geometry_.BlockOf(entry);
    }
    const unsigned above = NextOccupied(least.bin + 1);
    return above == kBins ? kNoBlock : geometry_.BlockOf(AtOrAbove({above, 0}));
  }

  BlockId ExactFit(std::int64_t bytes) {
    const Bin bin = BinOf(bytes);
    const FreeEntry least = Entry(bin, 0, 0);
    if (!IsOccupied(bin.index)) return kNoBlock;
    const FreeEntry entry = AtOrAbove({bin.index, least});
    const bool exact = (entry ^ least) >> 1 >> (63 - bin.octave) == 0;
    return entry != kNoEntry && exact ? geometry_.BlockOf(entry) : kNoBlock;
  }

  // Returns the next block after one that is here, in the order of (size, address). O(log n).
  BlockId Next(std::int64_t offset, std::int64_t bytes, BlockId block) {
    const Place place = PlaceOf(offset, bytes, block);
    const FreeEntry entry = AtOrAbove({place.bin, place.entry + 1});
    if (entry != kNoEntry) return geometry_.BlockOf(entry);
    const unsigned above = NextOccupied(place.bin + 1);
    return above == kBins ? kNoBlock : geometry_.BlockOf(AtOrAbove({above, 0}));
  }

  std::int64_t size() const { return size_; }

  BlockId Largest() const {
    if (words_ == 0) return kNoBlock;
    const auto word = static_cast<unsigned>(BitWidth(words_) - 1);
    const unsigned bin = word * kWord + static_cast<unsigned>(BitWidth(occupied_[word])) - 1;
    return geometry_.BlockOf(bins_[bin].Highest());
  }

  bool Contains(std::int64_t offset, std::int64_t bytes, BlockId block) const {
    const Place place = PlaceOf(offset, bytes, block);
    return bins_[place.bin].AtOrAbove(place.entry) == place.entry;
  }

  // Returns whether bins, bitmaps and trees agree and hold `entries` entries. O(n).
  bool IsValid(std::int64_t entries) const {
    for (unsigned bin = 0; bin < bins_.size(); ++bin) {
      const std::uint64_t occupied = occupied_[bin / kWord];
      if (IsOccupied(bin) == bins_[bin].empty() || !bins_[bin].IsValid()) return false;
      if (((words_ >> (bin / kWord) & 1) != 0) != (occupied != 0)) return false;
      entries -= bins_[bin].CountEntries();
    }
    return entries == 0;
  }

 private:
  static constexpr unsigned kWord = 64;  // bins in a word of the bitmap, and in an octave
  static constexpr unsigned kWords = kMaxAddressBits - 5;
  static constexpr unsigned kBins = kWords * kWord;

  struct Bin {
    unsigned index;
    int octave;          // every size here is at least 2^octave granules and has as many open bits
    std::uint64_t size;  // the open bits of this size, above the address and the name
  };

  Bin BinOf(std::int64_t bytes) const {
    const std::uint64_t granules = geometry_.Granules(bytes);
    const int octave = (63 ^ std::countl_zero(granules | kWord)) - 6;
    const auto index =
        static_cast<unsigned>(octave * int{kWord} + static_cast<int>(granules >> octave));
    return {index, octave, granules << 1 << (63 - octave)};
  }

  // (size, address, name), most significant first.
  FreeEntry Entry(const Bin& bin, std::int64_t offset, BlockId block) const {
    const auto address = static_cast<std::uint64_t>(offset);
    return bin.size | address >> (geometry_.granule_shift + bin.octave) << geometry_.block_bits |
           block;
  }

  // A lower bound in the order of (size, address).
  struct Place {
    unsigned bin;
    FreeEntry entry;

    friend bool operator==(const Place& a, const Place& b) = default;
  };
  static constexpr Place kNowhere = {kBins, kNoEntry};

  Place PlaceOf(std::int64_t offset, std::int64_t bytes, BlockId block) const {
    const Bin bin = BinOf(bytes);
    return {bin.index, Entry(bin, offset, block)};
  }

  // Returns the least entry at or above `least` in its bin, which is occupied, or kNoEntry.
  FreeEntry AtOrAbove(Place least) {
    if (bins_[least.bin].IsDeep()) [[unlikely]]
      return AtOrAboveInCrowd(least);
    return bins_[least.bin].AtOrAbove(least.entry);
  }

  // Searches a crowd: a bin with more than one leaf, as many blocks of one size make it. Remembers
  // its last answer, because the next question is often the same.
  [[gnu::noinline]] FreeEntry AtOrAboveInCrowd(Place least) {
    if (asked_ != least) {
      asked_ = least;
      answer_ = bins_[least.bin].AtOrAbove(least.entry);
    }
    return answer_;
  }

  void Forget(unsigned bin) {
    if (asked_.bin == bin) asked_ = kNowhere;
  }

  bool IsOccupied(unsigned bin) const { return (occupied_[bin / kWord] >> (bin % kWord) & 1) != 0; }

  // Returns the first occupied bin >= bin, or kBins. There is one more word than the bins need.
  unsigned NextOccupied(unsigned bin) const {
    unsigned word = bin / kWord;
    std::uint64_t occupied = occupied_[word] & (~std::uint64_t{0} << (bin % kWord));
    if (occupied == 0) {
      const std::uint64_t above = words_ & (~std::uint64_t{1} << word);
      if (above == 0) return kBins;
      word = static_cast<unsigned>(std::countr_zero(above));
      occupied = occupied_[word];
    }
    return word * kWord + static_cast<unsigned>(std::countr_zero(occupied));
  }

  Geometry geometry_;
  std::int64_t size_ = 0;    // entries
  std::uint64_t words_ = 0;  // bit w: occupied_[w] is not 0
  // Bit b of word w: bin w * kWord + b is not empty.
  std::array<std::uint64_t, kWords + 1> occupied_{};
  std::vector<EntryTree<SetLeaf>> bins_;  // up to that of the largest block
  EntryNodePool<SetLeaf> nodes_;

  // The last question to a crowd's tree, unless the tree has changed since.
  Place asked_ = kNowhere;
  FreeEntry answer_ = kNoEntry;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_SIZE_INDEX_H_
