#include "lib/zvc/block_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tidepool::internal::zvc {
namespace {

std::uint32_t RotatedRight(std::uint32_t word, std::size_t word_bytes) {
  return word_bytes == 2 ? std::rotr(static_cast<std::uint16_t>(word), 1) : std::rotr(word, 1);
}

// Fills the row behind `count` words with words of which packing leaves nothing.
void PadWords(std::byte* words, std::size_t word_bytes, const IndexEntry& entry) {
  const bool is_rotated = (entry.flags & kRotated) != 0;
  const std::uint32_t padding = is_rotated ? RotatedRight(entry.base, word_bytes) : entry.base;
  std::byte* const end = words + entry.count * word_bytes;
  for (std::size_t at = 0; at < kRowBytes; at += word_bytes) {
    std::memcpy(end + at, &padding, word_bytes);
  }
}

Packing PackingOf(const IndexEntry& entry) {
  return {entry.count, entry.bits, entry.base, (entry.flags & kRotated) != 0};
}

absl::Status DecompressWholeBlock(const Kernel& kernel, std::size_t word_bytes,
                                  const IndexEntry& entry, const std::byte* payload,
                                  std::byte* output) {
  alignas(kRowBytes) std::array<std::byte, kWordsRoom> words;
  const std::byte* const rows = payload + MaskBytes(word_bytes);
  if (entry.bits == word_bytes * 8) {
    std::memcpy(words.data(), rows, PackedBytes(word_bytes, entry.count, entry.bits));
  } else if (entry.bits == 0) {
    for (std::size_t count = 0; count < entry.count; count += kRowBytes / word_bytes) {
      IndexEntry written = entry;
      written.count = static_cast<std::uint16_t>(count);
      PadWords(words.data(), word_bytes, written);
    }
  } else {
    kernel.unpack(rows, PackingOf(entry), words.data());
  }
  const std::uint32_t count = kernel.expand(payload, words.data(), output);
  if (count == entry.count) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its mask names ", count, " words, expected ", entry.count, " as in the index"));
}

}  // namespace

IndexEntry BlockCompressor::Choose(const zvc::Scan& scan) const {
  const auto word_bits = static_cast<std::uint8_t>(word_bytes_ * 8);
  IndexEntry entry;
  entry.count = static_cast<std::uint16_t>(scan.count);
  if (scan.count == 0) return entry;
  const int bits = std::bit_width(scan.most - scan.least);
  const int rotated_bits = std::bit_width(scan.rotated_most - scan.rotated_least);
  const bool is_rotated = rotated_bits < bits;
  entry.bits = static_cast<std::uint8_t>(std::min(bits, rotated_bits));
  if (is_plain_ || entry.bits == word_bits) {
    entry.bits = word_bits;
  } else {
    entry.flags = is_rotated ? kRotated : 0;
    entry.base = is_rotated ? scan.rotated_least : scan.least;
  }
  const std::size_t raw_bytes = InWholeRows(input_.size());
  if (PayloadBytes(entry, word_bytes_, input_.size()) < raw_bytes) return entry;
  return {entry.count, word_bits, kRaw, 0};
}

const IndexEntry& BlockCompressor::Scan(absl::Span<const std::byte> input) {
  input_ = input;
  if (input.size() == kBlockBytes) {
    entry_ = Choose(kernel_.scan(input.data(), mask_.data(), words_.data()));
  } else {
    alignas(kRowBytes) std::array<std::byte, kBlockBytes> block = {};
    std::copy(input.begin(), input.end(), block.begin());
    entry_ = Choose(kernel_.scan(block.data(), mask_.data(), words_.data()));
  }
  payload_bytes_ = PayloadBytes(entry_, word_bytes_, input.size());
  return entry_;
}

void BlockCompressor::WriteRaw(std::byte* payload) const {
  std::memcpy(payload, input_.data(), input_.size());
  std::memset(payload + input_.size(), 0, payload_bytes_ - input_.size());
}

RowSums BlockCompressor::Write(std::byte* payload) {
  if (payload_bytes_ == 0) return {};
  if ((entry_.flags & kRaw) != 0) {
    WriteRaw(payload);
  } else {
    const std::size_t mask_bytes = MaskBytes(word_bytes_);
    std::memcpy(payload, mask_.data(), mask_bytes);
    PadWords(words_.data(), word_bytes_, entry_);
    if (entry_.bits == word_bytes_ * 8) {
      std::memcpy(payload + mask_bytes, words_.data(), payload_bytes_ - mask_bytes);
    } else if (entry_.bits != 0) {
      kernel_.pack(words_.data(), PackingOf(entry_), payload + mask_bytes);
    }
  }
  return kernel_.sum(payload, payload_bytes_);
}

absl::Status CheckEntry(const IndexEntry& entry, std::size_t word_bytes, ZeroValueMode mode,
                        std::size_t block_bytes) {
  const std::size_t most_words = (block_bytes + word_bytes - 1) / word_bytes;
  const std::size_t word_bits = word_bytes * 8;
  if (entry.count > most_words) {
    return absl::DataLossError(
        absl::StrCat("it has ", entry.count, " words, expected at most ", most_words));
  }
  if (entry.count == 0) {
    if (entry == IndexEntry{}) return absl::OkStatus();
    return absl::DataLossError("it has no words, expected nothing else in its index entry");
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
    return absl::DataLossError(absl::StrCat("its base is ", entry.base, ", expected 16 bits"));
  }
  if (entry.bits == word_bits ? entry.base != 0 || entry.flags == kRotated : entry.flags == kRaw) {
    return absl::DataLossError(
        "bits, flags and base of its index entry contradict each other, expected whole words "
        "exactly where nothing was subtracted");
  }
  if (entry.flags != kRaw &&
      PayloadBytes(entry, word_bytes, block_bytes) >= InWholeRows(block_bytes)) {
    return absl::DataLossError("its payload is as long as the block, expected it to be stored raw");
  }
  return absl::OkStatus();
}

absl::Status DecompressPayload(const Kernel& kernel, std::size_t word_bytes,
                               const IndexEntry& entry, const std::byte* payload,
                               absl::Span<std::byte> output) {
  if (entry.count == 0) {
    std::memset(output.data(), 0, output.size());
    return absl::OkStatus();
  }
  if ((entry.flags & kRaw) != 0) {
    std::memcpy(output.data(), payload, output.size());
    return absl::OkStatus();
  }
  if (output.size() == kBlockBytes) {
    return DecompressWholeBlock(kernel, word_bytes, entry, payload, output.data());
  }
  alignas(kRowBytes) std::array<std::byte, kBlockBytes> block;
  const absl::Status status =
      DecompressWholeBlock(kernel, word_bytes, entry, payload, block.data());
  if (!status.ok()) return status;
  if (std::any_of(block.begin() + static_cast<std::ptrdiff_t>(output.size()), block.end(),
                  [](std::byte b) { return b != std::byte{}; })) {
    return absl::DataLossError("it has words behind the end of the input, expected zeros");
  }
  std::memcpy(output.data(), block.data(), output.size());
  return absl::OkStatus();
}

}  // namespace tidepool::internal::zvc
