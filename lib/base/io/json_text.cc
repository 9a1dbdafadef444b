// SPDX-License-Identifier: Apache-2.0
// JSON text: RapidJSON writes the escapes.
#include "lib/base/io/json_text.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "lib/base/text/utf8.h"

namespace tidepool::io {

std::string JsonText(std::string_view text) {
  const std::string valid = text::ValidUtf8(text);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace tidepool::io
