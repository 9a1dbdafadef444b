// The loops over the words of a block, once for each instruction set and size of words. All do the
// same to the byte; which of them runs is decided here and nowhere else.
#ifndef TIDEPOOL_LIB_ZVC_KERNELS_H_
#define TIDEPOOL_LIB_ZVC_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "lib/zvc/format.h"
#include "tidepool/zero_value_codec.h"

namespace tidepool::internal::zvc {

// What the words of a block that are not zero are like. Without any, only `count` means something.
struct Scan {
  std::uint32_t count = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  std::uint32_t rotated_least = 0;  // the same of the words rotated left by one
  std::uint32_t rotated_most = 0;
};

// How words are packed. `bits` is less than a word has, and not 0.
struct Packing {
  std::uint32_t count = 0;
  std::uint32_t bits = 0;
  std::uint32_t base = 0;
  bool rotated = false;
};

// Room for the words of a block, and for a row more, because words are read and written in rows.
inline constexpr std::size_t kWordsRoom = kBlockBytes + kRowBytes;

// No pointer needs to be aligned.
struct Kernel {
  // Reads a whole block. Writes its mask and, to `words`, of kWordsRoom, the words that are not
  // zero.
  Scan (*scan)(const std::byte* block, std::byte* mask, std::byte* words);
  // The words up to a multiple of a row's are read: those behind `count` are such that nothing is
  // left of them. Writes PackedBytes() bytes.
  void (*pack)(const std::byte* words, const Packing& packing, std::byte* rows);
  // The other way. Reads PackedBytes() bytes, writes whole rows of words.
  void (*unpack)(const std::byte* rows, const Packing& packing, std::byte* words);
  // Writes a whole block and says how many words the mask names. Reads of `words`, of kWordsRoom,
  // anything.
  std::uint32_t (*expand)(const std::byte* mask, const std::byte* words, std::byte* block);
  // Of `bytes` bytes, a multiple of a row.
  RowSums (*sum)(const std::byte* rows, std::size_t bytes);
};

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

}  // namespace tidepool::internal::zvc

#endif  // TIDEPOOL_LIB_ZVC_KERNELS_H_
