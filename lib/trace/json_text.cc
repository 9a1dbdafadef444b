// RapidJSON knows UTF-8 and the escapes.
#include "lib/trace/json_text.h"

#include <rapidjson/encodings.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace tidepool::internal {
namespace {

// The bytes of the first character of `text`, 0 when it does not begin with one.
std::size_t CharacterBytes(std::string_view text) {
  rapidjson::MemoryStream stream(text.data(), text.size());
  unsigned codepoint = 0;
  return rapidjson::UTF8<>::Decode(stream, &codepoint) ? stream.Tell() : 0;
}

std::string WithReplacements(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    valid.append(bytes == 0 ? "\xef\xbf\xbd" : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string JsonText(std::string_view text) {
  const std::string valid = WithReplacements(text);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace tidepool::internal
