// SPDX-License-Identifier: Apache-2.0
// Kernels: the loops over the words of a block, for each instruction set and word size. All kernels
// give identical bytes. Only this file chooses between them.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_KERNELS_H_
#define TIDEPOOL_LIB_COPIES_ZVC_KERNELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/copies/zvc/zero_value_format.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::zvc {

// Range of the non-zero words of a block. For a block of zeros only `count` is defined.
struct Scan {
  std::uint32_t count = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  // Ends of the range if the highest bit is a sign. Defined only if both signs occur.
  std::uint32_t signed_least = 0;
  std::uint32_t signed_most = 0;
};

// Combines the minimum and maximum of each lane.
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

// Parameters of packing. `bits` is at least 1 and less than the bits of a word.
struct Packing {
  std::uint32_t count = 0;
  std::uint32_t bits = 0;
  std::uint32_t base = 0;
  bool rotated = false;
};

// Size of a buffer for the words of a block: one row more, because words are read and written in
// rows.
inline constexpr std::size_t kWordsBytes = kBlockBytes + kRowBytes;

// Loops that write output of the codec. Pointers need no alignment, except the output of streaming
// stores, which is aligned to a row.
struct Writers {
  // Packs words. Reads whole rows: the padding after `count` must pack to zero bits. Writes
  // PackedBytes() bytes and adds them to `sums`.
  void (*pack)(const std::byte* words, const Packing& packing, std::byte* rows, RowSums& sums);
  // Copies `bytes` bytes, a multiple of a row, and adds them to `sums`.
  void (*copy)(const std::byte* from, std::size_t bytes, std::byte* rows, RowSums& sums);
  // Writes a whole block and returns how many words the mask names. May read any part of `words`, a
  // buffer of kWordsBytes bytes.
  std::uint32_t (*expand)(const std::byte* mask, const std::byte* words, std::byte* block);
};

// Loops of one instruction set and word size. Pointers need no alignment.
struct Kernel {
  // Scans a whole block. Writes the block's mask, and the non-zero words to `words`, a buffer of
  // kWordsBytes bytes. Prefetches the memory at `next`, which need not exist: processors do not
  // prefetch across pages themselves, and memory would idle while the block is packed.
  Scan (*scan)(const std::byte* block, const std::byte* next, std::byte* mask, std::byte* words);
  // Adds `bytes` bytes, a multiple of a row, to `sums`.
  void (*sum)(const std::byte* rows, std::size_t bytes, RowSums& sums);
  // Undoes `pack`. Reads PackedBytes() bytes, adds them to `sums`, and writes whole rows of words.
  void (*unpack)(const std::byte* rows, const Packing& packing, std::byte* words, RowSums& sums);
  Writers writers;
  // Writers with stores that bypass the caches, where the instruction set has such stores.
  Writers streaming_writers;
};

// Prefetches memory that will be written.
inline void FetchForWriting(const std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kRowBytes) __builtin_prefetch(begin + at, 1);
}

// Pauses the processor for a moment in a loop that waits for another thread.
void Pause();

// Makes the stores of streaming writers visible to other threads.
void FinishStreaming();

bool HasInstructionSet(ZeroValueInstructionSet set);
ZeroValueInstructionSet BestInstructionSet();
// Returns the kernel; the processor must support `set`.
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

#endif  // TIDEPOOL_LIB_COPIES_ZVC_KERNELS_H_
