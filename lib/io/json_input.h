// A JSON file as RapidJSON's reader takes it: a stream over the bytes of a source, of which one
// piece at a time is in memory. It knows its line.
#ifndef TIDEPOOL_LIB_IO_JSON_INPUT_H_
#define TIDEPOOL_LIB_IO_JSON_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lib/io/byte_source.h"

namespace tidepool::io {

class JsonInput {
 public:
  // A text or a number that is longer is an error: the reader keeps it in one piece. Between two
  // calls of SawToken() at most this and a piece are read.
  static constexpr std::size_t kLongestToken = std::size_t{1} << 24;

  // `source` outlives it. A byte order mark at the beginning is skipped.
  explicit JsonInput(ByteSource& source);

  // What RapidJSON asks of a stream. Behind the end there are zeros.
  using Ch = char;
  char Peek() const { return *at_; }
  char Take() {
    const char taken = *at_++;
    if (at_ == end_) Refill();
    return taken;
  }
  std::size_t Tell() const { return before_ + static_cast<std::size_t>(at_ - piece_.data()); }
  // Of streams that are written to.
  void Put(char /*c*/) {}
  void Flush() {}
  char* PutBegin() { return nullptr; }
  std::size_t PutEnd(char* /*begin*/) { return 0; }

  void SawToken() { saw_token_ = true; }
  // Whether all was read. A zero in the file is not its end.
  bool is_at_end() const { return is_at_end_; }
  // The line of what comes next. All calls together take O(bytes).
  std::int64_t line();
  // Why the bytes ended before the file, if they did.
  const absl::Status& status() const { return status_; }

 private:
  void Refill();
  void End();

  ByteSource& source_;
  std::vector<char> piece_;
  const char* at_;
  const char* end_;
  const char* counted_;  // up to here, the line ends in the piece are in line_
  std::int64_t line_ = 1;
  std::size_t before_ = 0;         // bytes before the piece
  std::size_t without_token_ = 0;  // bytes read since a token was seen
  bool saw_token_ = false;
  bool is_at_end_ = false;
  absl::Status status_;
};

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_IO_JSON_INPUT_H_
