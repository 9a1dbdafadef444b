// SPDX-License-Identifier: Apache-2.0
// UTF-8: texts from files may hold any bytes, but some formats hold only Unicode.
#ifndef TIDEPOOL_LIB_BASE_TEXT_UTF8_H_
#define TIDEPOOL_LIB_BASE_TEXT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace tidepool::text {

// Returns the length in bytes of the first character of `text`, or 0 if it does not begin with
// valid UTF-8.
inline std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return is_overlong || is_beyond ? 0 : length;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Returns `text` with U+FFFD for each byte that is not part of a character.
inline std::string ValidUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) {
      valid += "\xef\xbf\xbd";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_BASE_TEXT_UTF8_H_
