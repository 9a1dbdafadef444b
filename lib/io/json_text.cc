// RapidJSON knows the escapes.
#include "lib/trace/json_text.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "lib/trace/utf8.h"

namespace tidepool::internal {

std::string JsonText(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace tidepool::internal
