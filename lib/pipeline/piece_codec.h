// One piece of a buffer, from a slot into a strand and back.
//
// A piece is stored as the index entries of its blocks and then their payloads, all as
// docs/formats/zero_value_format.md has them, but without header and checksum: it never leaves the
// process.
#ifndef TIDEPOOL_LIB_PIPELINE_PIECE_CODEC_H_
#define TIDEPOOL_LIB_PIPELINE_PIECE_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/pipeline/compressed_space.h"
#include "lib/zvc/zero_value_format.h"
#include "tidepool/compress/zero_value_codec.h"

namespace tidepool::pipeline {

struct PieceCoding {
  ZeroValueInstructionSet set = ZeroValueInstructionSet::kScalar;
  ZeroValueWord word = ZeroValueWord::k32Bits;
  ZeroValueMode mode = ZeroValueMode::kPacked;
};

// Where a piece is.
struct PiecePlace {
  std::int32_t strand = 0;
  std::int64_t offset = 0;  // in the strand, of its index
  std::int64_t nonzero_words = 0;
};

// What a thread needs for it, kept from one piece to the next.
class PieceCodec {
 public:
  // Appends the piece to `strand`, and says in `place` where it is, but for the number of the
  // strand. ResourceExhausted when the strand cannot grow.
  absl::Status Compress(const PieceCoding& coding, absl::Span<const std::byte> piece,
                        Strand& strand, PiecePlace& place);
  // Writes all of `piece`. DataLoss when what is stored is damaged.
  absl::Status Decompress(const PieceCoding& coding, const Strand& strand, const PiecePlace& place,
                          absl::Span<std::byte> piece);

 private:
  std::vector<zvc::IndexEntry> entries_;
  std::vector<std::byte> index_scratch_;
  alignas(zvc::kRowBytes) std::array<std::byte, zvc::kBlockBytes> block_scratch_;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_PIPELINE_PIECE_CODEC_H_
