// SPDX-License-Identifier: Apache-2.0
// Texts for terminals: names from files and arguments may hold characters that a terminal obeys.
#ifndef TIDEPOOL_TRACE_REPLAY_PRINTABLE_H_
#define TIDEPOOL_TRACE_REPLAY_PRINTABLE_H_

#include <ostream>
#include <streambuf>
#include <string>

namespace tidepool::tool {

// Returns `message` on one line, with control characters escaped: CLI11 quotes arguments as they
// are, and a terminal would obey them.
std::string Printable(const std::string& message);

// While it lives, each line that reaches a stream is printable. So a name that a command forgot to
// escape reaches no terminal as it is.
class PrintableLines final : public std::streambuf {
 public:
  explicit PrintableLines(std::ostream& stream) : stream_(stream), out_(*stream.rdbuf(this)) {}
  // Passes a last line without an end on.
  ~PrintableLines() override;
  PrintableLines(const PrintableLines&) = delete;
  PrintableLines& operator=(const PrintableLines&) = delete;

 protected:
  int_type overflow(int_type character) override;
  int sync() override;

 private:
  bool Pass(const std::string& end);

  std::ostream& stream_;
  std::streambuf& out_;
  std::string line_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_PRINTABLE_H_
