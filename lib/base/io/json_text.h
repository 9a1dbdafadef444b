// SPDX-License-Identifier: Apache-2.0
// JSON text: quotes names from traces, which may hold any bytes, while JSON holds only UTF-8.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_TEXT_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace tidepool::io {

// Returns `text` in quotes, with U+FFFD for each byte that is not part of valid UTF-8.
std::string JsonText(std::string_view text);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_TEXT_H_
