// SPDX-License-Identifier: Apache-2.0
// Errors about files: their position, and quotes on one line, of bounded length.
#ifndef TIDEPOOL_LIB_BASE_TEXT_QUOTE_H_
#define TIDEPOOL_LIB_BASE_TEXT_QUOTE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::text {

inline std::string Escaped(std::string_view text) {
  return absl::CHexEscape({text.data(), text.size()});
}

inline std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  return absl::StrCat("'", Escaped(text.substr(0, kLongest)), text.size() > kLongest ? "..." : "",
                      "'");
}

// Returns the name of a file as errors begin with it. Linux has no longer paths.
inline std::string FileName(std::string_view name) {
  constexpr std::size_t kLongest = 4096;
  if (name.empty()) return "''";
  return absl::StrCat(Escaped(name.substr(0, kLongest)), name.size() > kLongest ? "..." : "");
}

// Puts "NAME: " in front of an error about the file as a whole.
inline absl::Status AboutFile(std::string_view name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(FileName(name), ": ", status.message()));
}

// Puts "NAME:LINE: " in front of an error about a line, and "NAME: " if the line is 0.
inline absl::Status AboutLine(std::string_view name, std::int64_t line,
                              const absl::Status& status) {
  if (line == 0) return AboutFile(name, status);
  return absl::Status(status.code(),
                      absl::StrCat(FileName(name), ":", line, ": ", status.message()));
}

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_BASE_TEXT_QUOTE_H_
