// SPDX-License-Identifier: Apache-2.0
// The coding of a piece: its blocks, one after another, and their index.
#include "lib/copies/pipeline/piece_codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/copies/zvc/block_codec.h"
#include "lib/copies/zvc/kernels.h"

namespace tidepool::pipeline {
namespace {

// Slots fit into the cache and are used again at once.
constexpr bool kIsStreaming = false;

const std::byte* BytesOf(const std::vector<zvc::IndexEntry>& entries) {
  return reinterpret_cast<const std::byte*>(entries.data());
}

std::size_t BlockBytes(absl::Span<const std::byte> piece, std::size_t block) {
  return std::min(zvc::kBlockBytes, piece.size() - block * zvc::kBlockBytes);
}

}  // namespace

absl::Status PieceCodec::Compress(const PieceCoding& coding, absl::Span<const std::byte> piece,
                                  Strand& strand, PiecePosition& position) {
  const std::size_t blocks = zvc::BlocksOf(piece.size());
  const auto index_bytes = static_cast<std::int64_t>(zvc::IndexBytes(blocks));
  index_scratch_.resize(static_cast<std::size_t>(index_bytes));
  entries_.clear();
  position.offset = strand.size();
  position.nonzero_words = 0;
  absl::StatusOr<std::byte*> to = strand.Reserve(index_bytes, index_scratch_.data());
  if (!to.ok()) return to.status();
  strand.Commit(*to, index_bytes);

  zvc::BlockCompressor compressor(zvc::FormatOf(coding.set, coding.word, kIsStreaming),
                                  coding.mode == ZeroValueMode::kPlain);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::byte* const begin = piece.data() + block * zvc::kBlockBytes;
    entries_.push_back(
        compressor.Scan({begin, BlockBytes(piece, block)}, begin + zvc::kBlockBytes));
    position.nonzero_words += entries_.back().count;
    const auto bytes = static_cast<std::int64_t>(compressor.payload_bytes());
    to = strand.Reserve(bytes, block_scratch_.data());
    if (!to.ok()) return to.status();
    compressor.Write(*to);
    strand.Commit(*to, bytes);
  }
  strand.Overwrite(position.offset, BytesOf(entries_),
                   static_cast<std::int64_t>(blocks * sizeof(zvc::IndexEntry)));
  return absl::OkStatus();
}

absl::Status PieceCodec::Decompress(const PieceCoding& coding, const Strand& strand,
                                    const PiecePosition& position, absl::Span<std::byte> piece) {
  const std::size_t blocks = zvc::BlocksOf(piece.size());
  const auto index_bytes = static_cast<std::int64_t>(zvc::IndexBytes(blocks));
  index_scratch_.resize(static_cast<std::size_t>(index_bytes));
  const std::byte* const index = strand.Read(position.offset, index_bytes, index_scratch_.data());

  const zvc::BlockFormat format = zvc::FormatOf(coding.set, coding.word, kIsStreaming);
  zvc::RowSums sums;  // unused
  std::int64_t offset = position.offset + index_bytes;
  for (std::size_t block = 0; block < blocks; ++block) {
    zvc::IndexEntry entry;
    std::memcpy(&entry, index + block * sizeof(entry), sizeof(entry));
    const std::size_t block_bytes = BlockBytes(piece, block);
    absl::Status status = zvc::CheckEntry(entry, format.word_bytes, coding.mode, block_bytes);
    const auto bytes =
        status.ok()
            ? static_cast<std::int64_t>(zvc::PayloadBytes(entry, format.word_bytes, block_bytes))
            : 0;
    if (status.ok() && bytes > strand.size() - offset) {
      status = absl::DataLossError(absl::StrCat(
          "its payload has ", bytes, " bytes, expected at most ", strand.size() - offset));
    }
    if (status.ok()) {
      status =
          zvc::DecompressPayload(format, entry, strand.Read(offset, bytes, block_scratch_.data()),
                                 piece.subspan(block * zvc::kBlockBytes, block_bytes), sums);
    }
    if (!status.ok()) {
      return absl::DataLossError(
          absl::StrCat("stored buffer: block ", block, " of a piece: ", status.message()));
    }
    offset += bytes;
  }
  return absl::OkStatus();
}

}  // namespace tidepool::pipeline
