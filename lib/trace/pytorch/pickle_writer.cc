// SPDX-License-Identifier: Apache-2.0
// Pickle writer: buffers a megabyte of opcodes at a time.
#include "lib/trace/pytorch/pickle_writer.h"

#include <bit>

#include "lib/base/text/utf8.h"

namespace tidepool::pytorch {

namespace {

constexpr int kBatch = 1000;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

PickleWriter::PickleWriter(std::ostream& out) : out_(out) {
  Op(Opcode::kProto);
  Number(2, 1);
}

void PickleWriter::Number(std::uint64_t number, int width) {
  for (int i = 0; i < width; ++i) buffer_ += static_cast<char>(number >> (8 * i));
}

void PickleWriter::FlushAbove(std::size_t bytes) {
  if (buffer_.size() <= bytes) return;
  out_ << buffer_;
  buffer_.clear();
}

void PickleWriter::Integer(std::int64_t integer) {
  const auto bits = static_cast<std::uint64_t>(integer);
  if (integer >= 0 && integer <= 0xff) {
    Op(Opcode::kBinInt1);
    Number(bits, 1);
  } else if (integer >= 0 && integer <= 0xffff) {
    Op(Opcode::kBinInt2);
    Number(bits, 2);
  } else if (integer >= INT32_MIN && integer <= INT32_MAX) {
    Op(Opcode::kBinInt);
    Number(bits, 4);
  } else {
    // One bit more, for the sign.
    const int width = std::bit_width(integer < 0 ? ~bits : bits) / 8 + 1;
    Op(Opcode::kLong1);
    Number(static_cast<std::uint64_t>(width), 1);
    Number(bits, width);
  }
}

void PickleWriter::Unsigned(std::uint64_t integer) {
  if (integer <= INT64_MAX) return Integer(static_cast<std::int64_t>(integer));
  Op(Opcode::kLong1);
  Number(9, 1);
  Number(integer, 8);
  Number(0, 1);
}

void PickleWriter::Float(double number) {
  Op(Opcode::kBinFloat);
  Number(__builtin_bswap64(std::bit_cast<std::uint64_t>(number)), 8);
}

void PickleWriter::Text(std::string_view text) {
  const auto found = texts_.find(absl::string_view(text.data(), text.size()));
  if (found != texts_.end()) return Reference(found->second);
  const std::string valid = text::ValidUtf8(text);
  Op(Opcode::kBinUnicode);
  Number(valid.size(), 4);
  buffer_ += valid;
  texts_[std::string(text)] = Remember();
}

void PickleWriter::Pair(std::int64_t first, std::int64_t second) {
  Integer(first);
  Integer(second);
  Op(Opcode::kTuple2);
}

void PickleWriter::BeginDict() {
  Op(Opcode::kEmptyDict);
  Op(Opcode::kMark);
}

void PickleWriter::EndDict() {
  Op(Opcode::kSetItems);
  FlushAbove(kBufferBytes);
}

PickleWriter::List PickleWriter::BeginList() {
  Op(Opcode::kEmptyList);
  return {};
}

void PickleWriter::NextElement(List& list) {
  if (list.in_batch == kBatch) EndList(list);
  if (list.in_batch++ == 0) Op(Opcode::kMark);
}

void PickleWriter::EndList(List& list) {
  if (list.in_batch > 0) Op(Opcode::kAppends);
  list.in_batch = 0;
}

void PickleWriter::EmptyList() {
  if (has_empty_list_) return Reference(empty_list_);
  Op(Opcode::kEmptyList);
  empty_list_ = Remember();
  has_empty_list_ = true;
}

std::uint32_t PickleWriter::Remember() {
  const bool is_short = remembered_ <= 0xff;
  Op(is_short ? Opcode::kBinPut : Opcode::kLongBinPut);
  Number(remembered_, is_short ? 1 : 4);
  return remembered_++;
}

void PickleWriter::Reference(std::uint32_t number) {
  const bool is_short = number <= 0xff;
  Op(is_short ? Opcode::kBinGet : Opcode::kLongBinGet);
  Number(number, is_short ? 1 : 4);
}

void PickleWriter::End() {
  Op(Opcode::kStop);
  FlushAbove(0);
}

}  // namespace tidepool::pytorch
