// SPDX-License-Identifier: Apache-2.0
// Opening a stream: checks all of the header and the index before using it.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/copies/zvc/block_codec.h"
#include "lib/copies/zvc/kernels.h"
#include "lib/copies/zvc/ranges.h"
#include "lib/copies/zvc/stream_parts.h"
#include "lib/copies/zvc/zero_value_format.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("zero-value stream: ", what));
}

absl::Status InBlock(std::size_t block, const absl::Status& status) {
  return Damaged(absl::StrCat("block ", block, ": ", status.message()));
}

absl::StatusOr<zvc::Header> CheckedHeader(absl::Span<const std::byte> bytes) {
  zvc::Header header;
  if (bytes.size() < sizeof(header)) {
    return Damaged(
        absl::StrCat("cut off: ", bytes.size(), " bytes, expected a header of ", sizeof(header)));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != zvc::kMagic) {
    return Damaged("unknown first bytes, expected 89 74 70 7a 76 0d 0a 1a");
  }
  const std::uint32_t checksum = zvc::HeaderChecksum(header);
  if (header.header_checksum != checksum) {
    return Damaged(absl::StrCat("the checksum of the header is ", header.header_checksum,
                                ", expected ", checksum));
  }
  if (header.version != zvc::kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("zero-value stream: version ", header.version, ", expected ", zvc::kVersion));
  }
  if (header.word_bytes != 2 && header.word_bytes != 4) {
    return Damaged(absl::StrCat("words of ", header.word_bytes, " bytes, expected 2 or 4"));
  }
  if (header.mode > 1) return Damaged(absl::StrCat("mode ", header.mode, ", expected 0 or 1"));
  if (header.block_bytes != zvc::kBlockBytes) {
    return Damaged(
        absl::StrCat("blocks of ", header.block_bytes, " bytes, expected ", zvc::kBlockBytes));
  }
  if (header.input_bytes > kMaxZeroValueInputBytes) {
    return Damaged(absl::StrCat(header.input_bytes, " bytes of input, expected at most ",
                                kMaxZeroValueInputBytes));
  }
  if (std::any_of(header.reserved.begin(), header.reserved.end(), [](auto b) { return b != 0; })) {
    return Damaged("reserved bytes of the header are in use, expected zeros");
  }
  return header;
}

absl::Status CheckSize(const zvc::Header& header, std::size_t size) {
  const std::size_t payloads_begin = zvc::PayloadsBegin(zvc::BlocksOf(header.input_bytes));
  if (size >= payloads_begin && size - payloads_begin == header.payload_bytes) {
    return absl::OkStatus();
  }
  const char* const cut_off =
      size < payloads_begin || size - payloads_begin < header.payload_bytes ? "cut off: " : "";
  return Damaged(absl::StrCat(cut_off, size, " bytes, expected ", payloads_begin,
                              " of header and index and ", header.payload_bytes, " of payloads"));
}

absl::Status CheckIndexPadding(absl::Span<const std::byte> bytes, std::size_t blocks) {
  const std::byte* const end = bytes.data() + zvc::PayloadsBegin(blocks);
  const std::byte* const entries_end =
      bytes.data() + sizeof(zvc::Header) + blocks * sizeof(zvc::IndexEntry);
  if (std::all_of(entries_end, end, [](std::byte b) { return b == std::byte{}; })) {
    return absl::OkStatus();
  }
  return Damaged("the bytes after the index are not zero");
}

}  // namespace

std::size_t ZeroValueBound(std::size_t input_bytes) {
  return zvc::PayloadsBegin(zvc::BlocksOf(input_bytes)) + zvc::InWholeRows(input_bytes);
}

absl::StatusOr<ZeroValueStream> ZeroValueStream::Open(absl::Span<const std::byte> bytes) {
  const absl::StatusOr<zvc::Header> header = CheckedHeader(bytes);
  if (!header.ok()) return header.status();
  if (absl::Status status = CheckSize(*header, bytes.size()); !status.ok()) return status;

  ZeroValueStream stream;
  stream.bytes_ = bytes;
  stream.input_bytes_ = header->input_bytes;
  stream.blocks_ = zvc::BlocksOf(header->input_bytes);
  stream.contents_hash_ = header->checksum - zvc::HeaderHash(*header);
  stream.word_ = static_cast<ZeroValueWord>(header->word_bytes);
  stream.mode_ = static_cast<ZeroValueMode>(header->mode);
  if (absl::Status status = CheckIndexPadding(bytes, stream.blocks_); !status.ok()) return status;

  stream.group_begins_.reserve(stream.blocks_ / zvc::kGroupBlocks + 1);
  std::size_t begin = zvc::PayloadsBegin(stream.blocks_);
  for (std::size_t block = 0; block < stream.blocks_; ++block) {
    if (block % zvc::kGroupBlocks == 0) stream.group_begins_.push_back(begin);
    const zvc::IndexEntry entry = zvc::EntryAt(bytes, block);
    const std::size_t block_bytes = stream.BlockBytes(block);
    const absl::Status status =
        zvc::CheckEntry(entry, header->word_bytes, stream.mode_, block_bytes);
    if (!status.ok()) return InBlock(block, status);
    begin += zvc::PayloadBytes(entry, header->word_bytes, block_bytes);
    stream.nonzero_words_ += entry.count;
  }
  if (begin != bytes.size()) {
    return Damaged(absl::StrCat(bytes.size(), " bytes, expected ", begin, " as the index says"));
  }
  return stream;
}

std::size_t ZeroValueStream::BlockBytes(std::size_t block) const {
  return std::min(kZeroValueBlockBytes, input_bytes_ - block * kZeroValueBlockBytes);
}

std::size_t ZeroValueStream::PayloadBegin(std::size_t block) const {
  std::size_t begin = group_begins_[block / zvc::kGroupBlocks];
  for (std::size_t i = block / zvc::kGroupBlocks * zvc::kGroupBlocks; i < block; ++i) {
    begin += zvc::PayloadBytes(zvc::EntryAt(bytes_, i), static_cast<std::size_t>(word_),
                               kZeroValueBlockBytes);
  }
  return begin;
}

absl::Status ZeroValueStream::DecompressBlock(std::size_t block,
                                              absl::Span<std::byte> output) const {
  return DecompressBlock(block, output, zvc::BestInstructionSet());
}

absl::Status ZeroValueStream::DecompressBlock(std::size_t block, absl::Span<std::byte> output,
                                              ZeroValueInstructionSet set) const {
  if (block >= blocks_) {
    return absl::OutOfRangeError(absl::StrCat("block ", block, ", expected less than ", blocks_));
  }
  if (output.size() != BlockBytes(block)) {
    return absl::InvalidArgumentError(absl::StrCat("an output of ", output.size(),
                                                   " bytes, expected ", BlockBytes(block),
                                                   " for block ", block));
  }
  if (zvc::Overlap(bytes_, output)) {
    return absl::InvalidArgumentError("the output overlaps the stream");
  }
  if (!zvc::HasInstructionSet(set)) return zvc::LacksInstructionSet(set);
  zvc::RowSums unused;
  const absl::Status status =
      zvc::DecompressPayload(zvc::FormatOf(set, word_, false), zvc::EntryAt(bytes_, block),
                             bytes_.data() + PayloadBegin(block), output, unused);
  return status.ok() ? status : InBlock(block, status);
}

}  // namespace tidepool
