// SPDX-License-Identifier: Apache-2.0
// JSON input: a stream for RapidJSON's reader over a byte source. It buffers a part of the file and
// counts lines.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_INPUT_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::io {

class JsonInput {
 public:
  // Longest text or number. The reader keeps a token in one buffer, so a longer one is an error.
  // Between two calls of SawToken() at most this and one buffer are read.
  static constexpr std::size_t kLongestToken = std::size_t{1} << 24;

  // Reads from `source`, which must outlive the stream. Skips a byte order mark at the beginning.
  explicit JsonInput(ByteSource& source);

  // RapidJSON's concept of a stream. After the end it reads zeros.
  using Ch = char;
  char Peek() const { return *at_; }
  char Take() {
    const char taken = *at_++;
    if (at_ == end_) Refill();
    return taken;
  }
  std::size_t Tell() const { return before_ + static_cast<std::size_t>(at_ - buffer_.data()); }
  // RapidJSON requires these of every stream; only output streams use them.
  void Put(char /*c*/) {}
  void Flush() {}
  char* PutBegin() { return nullptr; }
  std::size_t PutEnd(char* /*begin*/) { return 0; }

  void SawToken() { saw_token_ = true; }
  // Whether the source was read to its end. A zero byte in the file is not the end.
  bool is_at_end() const { return is_at_end_; }
  // Returns the line of the next character. All calls together take O(bytes).
  std::int64_t line();
  // Error that ended the bytes before the end of the file, if any.
  const absl::Status& status() const { return status_; }

 private:
  void Refill();
  void End();

  ByteSource& source_;
  std::vector<char> buffer_;
  const char* at_;
  const char* end_;
  const char* counted_;  // line ends before this address are counted in line_
  std::int64_t line_ = 1;
  std::size_t before_ = 0;         // bytes before the buffer
  std::size_t without_token_ = 0;  // bytes read since the last token
  bool saw_token_ = false;
  bool is_at_end_ = false;
  absl::Status status_;
};

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_INPUT_H_
