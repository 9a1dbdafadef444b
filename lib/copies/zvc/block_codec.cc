// SPDX-License-Identifier: Apache-2.0
// Block codec: chooses how to store each block, and undoes it.
#include "lib/copies/zvc/block_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool::zvc {
namespace {

std::uint32_t RotatedRight(std::uint32_t word, std::size_t word_bytes) {
  return word_bytes == 2 ? std::rotr(static_cast<std::uint16_t>(word), 1) : std::rotr(word, 1);
}

template <typename Word>
void FillRow(std::byte* row, std::uint32_t word) {
  std::array<Word, kRowBytes / sizeof(Word)> words;
  words.fill(static_cast<Word>(word));
  std::memcpy(row, &words, sizeof(words));
}

// Fills the row after `count` words with words that pack to zero bits.
void PadWords(std::byte* words, std::size_t word_bytes, const IndexEntry& entry,
              std::size_t count) {
  const bool is_rotated = (entry.flags & kRotated) != 0;
  const std::uint32_t padding = is_rotated ? RotatedRight(entry.base, word_bytes) : entry.base;
  std::byte* const end = words + count * word_bytes;
  return word_bytes == 2 ? FillRow<std::uint16_t>(end, padding)
                         : FillRow<std::uint32_t>(end, padding);
}

Packing PackingOf(const IndexEntry& entry) {
  return {entry.count, entry.bits, entry.base, (entry.flags & kRotated) != 0};
}

// Unpacks whole rows of words: at most one row more than the entry's words.
void UnpackWords(const BlockFormat& format, const IndexEntry& entry, const std::byte* rows,
                 std::byte* words, RowSums& sums) {
  const std::size_t word_bytes = format.word_bytes;
  if (entry.bits == word_bytes * 8) {
    format.kernel.writers.copy(rows, PackedBytes(word_bytes, entry.count, entry.bits), words, sums);
  } else if (entry.bits == 0) {
    for (std::size_t count = 0; count < entry.count; count += kRowBytes / word_bytes) {
      PadWords(words, word_bytes, entry, count);
    }
  } else {
    format.kernel.unpack(rows, PackingOf(entry), words, sums);
  }
}

absl::Status DecompressWholeBlock(const BlockFormat& format, const IndexEntry& entry,
                                  const std::byte* payload, std::byte* output, RowSums& sums) {
  const std::size_t mask_bytes = MaskBytes(entry, format.word_bytes);
  if (mask_bytes == 0) {
    UnpackWords(format, entry, payload, output, sums);
    return absl::OkStatus();
  }
  alignas(kRowBytes) std::array<std::byte, kWordsBytes> words;
  format.kernel.sum(payload, mask_bytes, sums);
  UnpackWords(format, entry, payload + mask_bytes, words.data(), sums);
  const std::uint32_t count = format.writers.expand(payload, words.data(), output);
  if (count == entry.count) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its mask names ", count, " words, expected ", entry.count, " as in the index"));
}

struct WordRange {
  std::uint32_t base = 0;
  std::uint8_t bits = 0;
  bool is_rotated = false;
};

std::uint32_t RotatedLeft(std::uint32_t word, int word_bits) {
  return word_bits == 16 ? std::rotl(static_cast<std::uint16_t>(word), 1) : std::rotl(word, 1);
}

// Returns the smaller range of the words, as they are or rotated left by one bit. Rotation keeps
// the order of words of equal sign and doubles their distances. So it can help only if both signs
// occur, and the rotated ends are among the ends of both signs.
WordRange BestRange(const Scan& scan, int word_bits) {
  const auto bits = static_cast<std::uint8_t>(std::bit_width(scan.most - scan.least));
  const std::uint32_t sign = std::uint32_t{1} << (word_bits - 1);
  if (scan.least >= sign || scan.most < sign) return {scan.least, bits};
  const auto [least, most] =
      std::minmax({RotatedLeft(scan.least, word_bits), RotatedLeft(scan.signed_most, word_bits),
                   RotatedLeft(scan.signed_least, word_bits), RotatedLeft(scan.most, word_bits)});
  const auto rotated_bits = static_cast<std::uint8_t>(std::bit_width(most - least));
  return rotated_bits < bits ? WordRange{least, rotated_bits, true} : WordRange{scan.least, bits};
}

}  // namespace

IndexEntry BlockCompressor::Choose(const zvc::Scan& scan) const {
  const auto word_bits = static_cast<std::uint8_t>(format_.word_bytes * 8);
  IndexEntry entry;
  entry.count = static_cast<std::uint16_t>(scan.count);
  if (scan.count == 0) return entry;
  const WordRange range = is_plain_ ? WordRange{.bits = word_bits} : BestRange(scan, word_bits);
  entry.bits = range.bits;
  if (range.bits < word_bits) {
    entry.flags = range.is_rotated ? kRotated : 0;
    entry.base = range.base;
  }
  const std::size_t raw_bytes = InWholeRows(input_.size());
  if (PayloadBytes(entry, format_.word_bytes, input_.size()) < raw_bytes) return entry;
  return {entry.count, word_bits, kRaw, 0};
}

const IndexEntry& BlockCompressor::Scan(absl::Span<const std::byte> input, const std::byte* next) {
  input_ = input;
  if (input.size() == kBlockBytes) {
    entry_ = Choose(format_.kernel.scan(input.data(), next, mask_.data(), words_.data()));
  } else {
    alignas(kRowBytes) std::array<std::byte, kBlockBytes> block = {};
    std::copy(input.begin(), input.end(), block.begin());
    entry_ = Choose(format_.kernel.scan(block.data(), next, mask_.data(), words_.data()));
  }
  payload_bytes_ = PayloadBytes(entry_, format_.word_bytes, input.size());
  return entry_;
}

void BlockCompressor::WriteRaw(std::byte* payload, RowSums& sums) const {
  const std::size_t whole_bytes = input_.size() / kRowBytes * kRowBytes;
  format_.writers.copy(input_.data(), whole_bytes, payload, sums);
  if (whole_bytes == input_.size()) return;
  alignas(kRowBytes) std::array<std::byte, kRowBytes> row = {};
  std::copy(input_.begin() + static_cast<std::ptrdiff_t>(whole_bytes), input_.end(), row.begin());
  format_.writers.copy(row.data(), kRowBytes, payload + whole_bytes, sums);
}

RowSums BlockCompressor::Write(std::byte* payload) {
  RowSums sums;
  if (payload_bytes_ == 0) return sums;
  if ((entry_.flags & kRaw) != 0) {
    WriteRaw(payload, sums);
    return sums;
  }
  const Writers& writers = format_.writers;
  const std::size_t mask_bytes = MaskBytes(entry_, format_.word_bytes);
  writers.copy(mask_.data(), mask_bytes, payload, sums);
  PadWords(words_.data(), format_.word_bytes, entry_, entry_.count);
  if (entry_.bits == format_.word_bytes * 8) {
    writers.copy(words_.data(), payload_bytes_ - mask_bytes, payload + mask_bytes, sums);
  } else if (entry_.bits != 0) {
    writers.pack(words_.data(), PackingOf(entry_), payload + mask_bytes, sums);
  }
  return sums;
}

absl::Status CheckEntry(const IndexEntry& entry, std::size_t word_bytes, ZeroValueMode mode,
                        std::size_t block_bytes) {
  const std::size_t most_words = CeilDivide(block_bytes, word_bytes);
  const std::size_t word_bits = word_bytes * 8;
  if (entry.count > most_words) {
    return absl::DataLossError(
        absl::StrCat("it has ", entry.count, " words, expected at most ", most_words));
  }
  if (entry.count == 0) {
    if (entry == IndexEntry{}) return absl::OkStatus();
    return absl::DataLossError("it has no words, but its index entry is not zero");
  }
  if (entry.flags > kRaw) {
    return absl::DataLossError(absl::StrCat("its flags are ", entry.flags, ", expected 0, 1 or 2"));
  }
  if (entry.bits > word_bits || (mode == ZeroValueMode::kPlain && entry.bits != word_bits)) {
    return absl::DataLossError(absl::StrCat("its words have ", entry.bits, " bits, expected ",
                                            mode == ZeroValueMode::kPlain ? "" : "at most ",
                                            word_bits));
  }
  if (word_bytes == 2 && entry.base > 0xffff) {
    return absl::DataLossError(
        absl::StrCat("its base is ", entry.base, ", expected at most 65535"));
  }
  if (entry.bits == word_bits ? entry.base != 0 || entry.flags == kRotated : entry.flags == kRaw) {
    return absl::DataLossError("bits, flags and base of its index entry contradict each other");
  }
  if (entry.flags != kRaw &&
      PayloadBytes(entry, word_bytes, block_bytes) >= InWholeRows(block_bytes)) {
    return absl::DataLossError("its payload is as long as the block, but it is not stored raw");
  }
  return absl::OkStatus();
}

absl::Status DecompressPayload(const BlockFormat& format, const IndexEntry& entry,
                               const std::byte* payload, absl::Span<std::byte> output,
                               RowSums& sums) {
  if (entry.count == 0) {
    std::memset(output.data(), 0, output.size());
    return absl::OkStatus();
  }
  if ((entry.flags & kRaw) != 0) {
    const std::size_t whole_bytes = output.size() / kRowBytes * kRowBytes;
    format.writers.copy(payload, whole_bytes, output.data(), sums);
    if (whole_bytes == output.size()) return absl::OkStatus();
    format.kernel.sum(payload + whole_bytes, kRowBytes, sums);
    std::memcpy(output.data() + whole_bytes, payload + whole_bytes, output.size() - whole_bytes);
    return absl::OkStatus();
  }
  if (output.size() == kBlockBytes) {
    return DecompressWholeBlock(format, entry, payload, output.data(), sums);
  }
  alignas(kRowBytes) std::array<std::byte, kBlockBytes> block;
  absl::Status status = DecompressWholeBlock(format, entry, payload, block.data(), sums);
  if (!status.ok()) return status;
  if (std::any_of(block.begin() + static_cast<std::ptrdiff_t>(output.size()), block.end(),
                  [](std::byte b) { return b != std::byte{}; })) {
    return absl::DataLossError("it has words after the end of the input, expected zeros");
  }
  std::memcpy(output.data(), block.data(), output.size());
  return absl::OkStatus();
}

}  // namespace tidepool::zvc
