// SPDX-License-Identifier: Apache-2.0
// The coding of a piece of a buffer, from a slot into a strand and back.
//
// A stored piece is the index entries of its blocks, followed by their payloads, in the format of
// zero-value streams. It has no header and no checksum, because it never leaves the process.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_PIECE_CODEC_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_PIECE_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/copies/pipeline/compressed_space.h"
#include "lib/copies/zvc/zero_value_format.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::pipeline {

struct PieceCoding {
  ZeroValueInstructionSet set = ZeroValueInstructionSet::kScalar;
  ZeroValueWord word = ZeroValueWord::k32Bits;
  ZeroValueMode mode = ZeroValueMode::kPacked;
};

// The position of a stored piece.
struct PiecePosition {
  std::int32_t strand = 0;
  std::int64_t offset = 0;  // of its index, in the strand
  std::int64_t nonzero_words = 0;
};

// Compresses and decompresses pieces. Each thread has its own, and keeps it for its scratch memory.
class PieceCodec {
 public:
  // Appends the piece to `strand` and sets `position`, except the number of the strand.
  // ResourceExhausted when the strand cannot grow.
  absl::Status Compress(const PieceCoding& coding, absl::Span<const std::byte> piece,
                        Strand& strand, PiecePosition& position);
  // Writes all of `piece`. DataLoss when the stored bytes are damaged.
  absl::Status Decompress(const PieceCoding& coding, const Strand& strand,
                          const PiecePosition& position, absl::Span<std::byte> piece);

 private:
  std::vector<zvc::IndexEntry> entries_;
  std::vector<std::byte> index_scratch_;
  alignas(zvc::kRowBytes) std::array<std::byte, zvc::kBlockBytes> block_scratch_;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_PIECE_CODEC_H_
