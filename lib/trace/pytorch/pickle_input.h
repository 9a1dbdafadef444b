// SPDX-License-Identifier: Apache-2.0
// Pickle input: buffers a part of a pickle.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_INPUT_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_INPUT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::pytorch {

class PickleInput {
 public:
  // `source` must outlive the input.
  explicit PickleInput(io::ByteSource& source) : source_(source), buffer_(kBufferBytes + kWord) {}

  // Buffered bytes that come next.
  std::string_view ahead() const { return {buffer_.data() + at_, end_ - at_}; }
  // Takes buffered bytes.
  void Skip(std::size_t bytes) { at_ += bytes; }
  // Returns eight bytes as a little-endian number.
  static std::uint64_t WordAt(const char* bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, kWord);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word;
  }
  // Returns the next eight bytes; bytes after the buffered ones are any.
  std::uint64_t Word() const { return WordAt(buffer_.data() + at_); }
  char TakeByte() { return buffer_[at_++]; }
  // Offset of the next byte in the pickle.
  std::uint64_t position() const { return before_ + at_; }
  std::uint64_t file_bytes() const { return source_.file_bytes(); }
  std::uint64_t file_size() const { return source_.file_size(); }

  // Reads until the buffer is full or the source ends, and sets is_at_end().
  absl::Status Fill() {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    before_ += at_;
    end_ -= at_;
    at_ = 0;
    const absl::StatusOr<std::size_t> got =
        io::ReadFully(source_, buffer_.data() + end_, kBufferBytes - end_);
    if (!got.ok()) return got.status();
    end_ += *got;
    is_at_end_ = end_ < kBufferBytes;
    return absl::OkStatus();
  }
  bool is_at_end() const { return is_at_end_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  io::ByteSource& source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::uint64_t before_ = 0;  // bytes before the buffer
  bool is_at_end_ = false;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_INPUT_H_
