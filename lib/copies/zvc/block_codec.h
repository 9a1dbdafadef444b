// SPDX-License-Identifier: Apache-2.0
// Block codec: converts one block of words to an index entry and a payload, and back.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_BLOCK_CODEC_H_
#define TIDEPOOL_LIB_COPIES_ZVC_BLOCK_CODEC_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/copies/zvc/kernels.h"
#include "lib/copies/zvc/zero_value_format.h"

namespace tidepool::zvc {

// Kernel of a codec, and its word size.
struct BlockFormat {
  const Kernel& kernel;
  const Writers& writers;  // the kernel's cached or streaming writers
  std::size_t word_bytes;
};

// Returns the format; `is_streaming` selects stores that bypass the caches.
inline BlockFormat FormatOf(ZeroValueInstructionSet set, ZeroValueWord word, bool is_streaming) {
  const Kernel& kernel = KernelFor(set, word);
  return {kernel, is_streaming ? kernel.streaming_writers : kernel.writers,
          static_cast<std::size_t>(word)};
}

// Compresses blocks one after the other. `Scan` computes the length of the payload; `Write` may
// follow and writes it. Not thread-safe.
class BlockCompressor {
 public:
  BlockCompressor(const BlockFormat& format, bool is_plain)
      : format_(format), is_plain_(is_plain) {}

  // Scans one block, or a shorter last block. `input` must stay valid until `Write`. Prefetches the
  // memory at `next`, which is expected to be scanned next and need not exist.
  const IndexEntry& Scan(absl::Span<const std::byte> input, const std::byte* next);
  const IndexEntry& entry() const { return entry_; }
  std::size_t payload_bytes() const { return payload_bytes_; }
  // Writes payload_bytes() bytes and returns their sums.
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
  alignas(kRowBytes) std::array<std::byte, kWordsBytes> words_;
};

// Checks that a block of `block_bytes` bytes can have `entry`. Errors do not name the block.
absl::Status CheckEntry(const IndexEntry& entry, std::size_t word_bytes, ZeroValueMode mode,
                        std::size_t block_bytes);

// Writes the output.size() bytes of the block and adds the payload to `sums`. `entry` must have
// been checked, and `payload` must be as long as it says. Returns DataLoss, without the block's
// number, when the payload is invalid.
absl::Status DecompressPayload(const BlockFormat& format, const IndexEntry& entry,
                               const std::byte* payload, absl::Span<std::byte> output,
                               RowSums& sums);

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_BLOCK_CODEC_H_
