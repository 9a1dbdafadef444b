// SPDX-License-Identifier: Apache-2.0
// Names from files inside of C++ source, as comments and as literals: no name reaches beyond its
// own.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_SOURCE_TEXT_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_SOURCE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/text/quote.h"

namespace tidepool::emit {

// Returns a name as characters of a literal. Question marks are escaped too: until C++17 two of
// them and another character are a trigraph, so `??/` would be a backslash.
inline std::string SourceName(std::string_view name) {
  return absl::StrReplaceAll(text::Escaped(name), {{"?", "\\?"}});
}

inline std::string Literal(std::string_view text) {
  return absl::StrCat("\"", SourceName(text), "\"");
}

// Returns a comment of one line about a name. It ends in a full stop: a backslash at the end would
// make the next line part of the comment.
inline std::string Comment(std::string_view name) {
  return absl::StrCat("  // ", SourceName(name), ".\n");
}

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_SOURCE_TEXT_H_
