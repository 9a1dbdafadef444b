// One block: from its words to an index entry and a payload, and back.
#ifndef TIDEPOOL_LIB_ZVC_BLOCK_CODEC_H_
#define TIDEPOOL_LIB_ZVC_BLOCK_CODEC_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/zvc/kernels.h"
#include "lib/zvc/zero_value_format.h"

namespace tidepool::zvc {

// The kernel of a codec, and the size of its words.
struct BlockFormat {
  const Kernel& kernel;
  const Writers& writers;  // of the kernel
  std::size_t word_bytes;
};

// `is_streaming`: whether what is written goes past the caches.
inline BlockFormat FormatOf(ZeroValueInstructionSet set, ZeroValueWord word, bool is_streaming) {
  const Kernel& kernel = KernelFor(set, word);
  return {kernel, is_streaming ? kernel.streaming_writers : kernel.writers,
          static_cast<std::size_t>(word)};
}

// Compresses one block after the other. First `Scan`, which says how long the payload is, then, if
// wanted, `Write`. Not thread-safe.
class BlockCompressor {
 public:
  BlockCompressor(const BlockFormat& format, bool is_plain)
      : format_(format), is_plain_(is_plain) {}

  // `input` is one block, or less at the end of an input; it stays until `Write`. What begins at
  // `next` is expected to be scanned after it; it need not be there.
  const IndexEntry& Scan(absl::Span<const std::byte> input, const std::byte* next);
  const IndexEntry& entry() const { return entry_; }
  std::size_t payload_bytes() const { return payload_bytes_; }
  // Writes payload_bytes() bytes; says what they sum to.
  RowSums Write(std::byte* payload);

 private:
  IndexEntry Choose(const zvc::Scan& scan) const;
  void WriteRaw(std::byte* payload, RowSums& sums) const;

  const BlockFormat format_;
  const bool is_plain_;
  absl::Span<const std::byte> input_;
  IndexEntry entry_;
  std::size_t payload_bytes_ = 0;
  alignas(kRowBytes) std::array<std::byte, 512> mask_;
  alignas(kRowBytes) std::array<std::byte, kWordsRoom> words_;
};

// Whether `entry` is one that a block of `block_bytes` bytes can have. The error says what is wrong
// and what was expected, without the place.
absl::Status CheckEntry(const IndexEntry& entry, std::size_t word_bytes, ZeroValueMode mode,
                        std::size_t block_bytes);

// Writes output.size() bytes, those of the block, and adds the payload to `sums`. `entry` was
// checked, and `payload` is as long as it says. DataLoss, without the place, when the payload
// cannot be one.
absl::Status DecompressPayload(const BlockFormat& format, const IndexEntry& entry,
                               const std::byte* payload, absl::Span<std::byte> output,
                               RowSums& sums);

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_ZVC_BLOCK_CODEC_H_
