// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/printable.h"

#include <utility>

#include "absl/strings/escaping.h"

namespace tidepool::tool {

std::string Printable(const std::string& message) {
  std::string printable;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const bool is_control = byte < 0x20 || byte == 0x7f;
    // U+0080 to U+009F in UTF-8.
    const bool begins_control =
        byte == 0xc2 && i + 1 < message.size() && static_cast<unsigned char>(message[i + 1]) < 0xa0;
    if (byte == '\n' || byte == '\r') {
      printable += ' ';
    } else if (begins_control) {
      printable += absl::CHexEscape({message.data() + i++, 2});
    } else if (is_control) {
      printable += absl::CHexEscape({message.data() + i, 1});
    } else {
      printable += message[i];
    }
  }
  return printable;
}

PrintableLines::~PrintableLines() {
  Pass("");
  stream_.rdbuf(&out_);
}

PrintableLines::int_type PrintableLines::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return 0;
  if (character == '\n') return Pass("\n") ? character : traits_type::eof();
  line_ += traits_type::to_char_type(character);
  return character;
}

// A flush in the middle of a character would split it: only whole lines are passed on.
int PrintableLines::sync() { return out_.pubsync(); }

bool PrintableLines::Pass(const std::string& end) {
  const std::string text = Printable(std::exchange(line_, {})) + end;
  const auto bytes = static_cast<std::streamsize>(text.size());
  return out_.sputn(text.data(), bytes) == bytes;
}

}  // namespace tidepool::tool
