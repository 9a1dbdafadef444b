// Texts as JSON holds them: JSON is UTF-8, and what a trace calls things need not be.
#ifndef TIDEPOOL_LIB_IO_JSON_TEXT_H_
#define TIDEPOOL_LIB_IO_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace tidepool::io {

// `text` in quotes. Each byte that is no part of UTF-8 becomes U+FFFD.
std::string JsonText(std::string_view text);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_IO_JSON_TEXT_H_
