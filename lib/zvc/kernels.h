// The loops over the words of a block, once for each instruction set and size of words. All do the
// same to the byte; which of them runs is decided here and nowhere else.
#ifndef TIDEPOOL_LIB_ZVC_KERNELS_H_
#define TIDEPOOL_LIB_ZVC_KERNELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/zvc/zero_value_format.h"
#include "tidepool/compress/zero_value_codec.h"

namespace tidepool::zvc {

// What the words of a block that are not zero are like. Without any, only `count` means something.
struct Scan {
  std::uint32_t count = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  // The same where the highest bit is a sign. Means something where both signs are there.
  std::uint32_t signed_least = 0;
  std::uint32_t signed_most = 0;
};

// From the least and most of each lane.
template <typename Lanes>
Scan FoldScan(std::uint32_t count, const Lanes& least, const Lanes& most, const Lanes& signed_least,
              const Lanes& signed_most) {
  using Word = typename Lanes::value_type;
  using SignedWord = std::make_signed_t<Word>;
  Word all_least = least[0];
  Word all_most = most[0];
  auto all_signed_least = static_cast<SignedWord>(signed_least[0]);
  auto all_signed_most = static_cast<SignedWord>(signed_most[0]);
  for (std::size_t lane = 0; lane < least.size(); ++lane) {
    all_least = std::min(all_least, least[lane]);
    all_most = std::max(all_most, most[lane]);
    all_signed_least = std::min(all_signed_least, static_cast<SignedWord>(signed_least[lane]));
    all_signed_most = std::max(all_signed_most, static_cast<SignedWord>(signed_most[lane]));
  }
  return {count, all_least, all_most, static_cast<Word>(all_signed_least),
          static_cast<Word>(all_signed_most)};
}

// How words are packed. `bits` is less than a word has, and not 0.
struct Packing {
  std::uint32_t count = 0;
  std::uint32_t bits = 0;
  std::uint32_t base = 0;
  bool rotated = false;
};

// Room for the words of a block, and for a row more, because words are read and written in rows.
inline constexpr std::size_t kWordsRoom = kBlockBytes + kRowBytes;

// The loops that write what leaves the codec. No pointer needs to be aligned, but the output where
// stores go past the caches: that is aligned by a row.
struct Writers {
  // The words up to a multiple of a row's are read: those behind `count` are such that nothing is
  // left of them. Writes PackedBytes() bytes and adds them to `sums`.
  void (*pack)(const std::byte* words, const Packing& packing, std::byte* rows, RowSums& sums);
  // Copies `bytes` bytes, a multiple of a row, and adds them to `sums`.
  void (*copy)(const std::byte* from, std::size_t bytes, std::byte* rows, RowSums& sums);
  // Writes a whole block and says how many words the mask names. Reads of `words`, of kWordsRoom,
  // anything.
  std::uint32_t (*expand)(const std::byte* mask, const std::byte* words, std::byte* block);
};

// No pointer needs to be aligned.
struct Kernel {
  // Reads a whole block, and fetches what lies at `next`, if anything, into the cache: processors
  // do not fetch beyond a page by themselves, and memory would rest while the block is packed.
  // Writes the block's mask and, to `words`, of kWordsRoom, the words that are not zero.
  Scan (*scan)(const std::byte* block, const std::byte* next, std::byte* mask, std::byte* words);
  // Adds `bytes` bytes, a multiple of a row.
  void (*sum)(const std::byte* rows, std::size_t bytes, RowSums& sums);
  // What `pack` did. Reads PackedBytes() bytes, adds them to `sums`, writes whole rows of words.
  void (*unpack)(const std::byte* rows, const Packing& packing, std::byte* words, RowSums& sums);
  Writers writers;
  // With stores that go past the caches, where the instruction set has any.
  Writers streaming_writers;
};

// Begins to bring memory that will be written into the cache.
inline void FetchForWriting(const std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kRowBytes) __builtin_prefetch(begin + at, 1);
}

// For a moment, while a thread waits for another.
void Pause();

// Makes what streaming writers wrote visible to other threads.
void FinishStreaming();

bool HasInstructionSet(ZeroValueInstructionSet set);
ZeroValueInstructionSet BestInstructionSet();
// `set` is one that the processor has.
const Kernel& KernelFor(ZeroValueInstructionSet set, ZeroValueWord word);

extern const Kernel kScalar16;
extern const Kernel kScalar32;
#if defined(__x86_64__)
extern const Kernel kAvx2For16;
extern const Kernel kAvx2For32;
extern const Kernel kAvx512For16;
extern const Kernel kAvx512For32;
extern const Kernel kAvx512Vbmi2For16;
#endif

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_ZVC_KERNELS_H_
