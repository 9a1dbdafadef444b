// SPDX-License-Identifier: Apache-2.0
// Escapes texts by way of JSON, which nlohmann-json already makes safe ASCII.
#include "trace_replay/report/markup.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tidepool::tool {
namespace {

// Returns JSON in ASCII: other characters are \uXXXX, in surrogate pairs beyond 0xFFFF.
std::string Ascii(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

bool IsHidden(unsigned code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

void AppendCode(unsigned code, std::string& markup) {
  if (!IsHidden(code)) {
    absl::StrAppend(&markup, "&#x", absl::Hex(code), ";");
  } else if (code < 0x100) {
    absl::StrAppend(&markup, "\\x", absl::Hex(code, absl::kZeroPad2));
  } else {
    absl::StrAppend(&markup, "\\u", absl::Hex(code, absl::kZeroPad4));
  }
}

// Returns the code of a short escape of JSON.
unsigned ShortEscape(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:  // a quote or a backslash
      return static_cast<unsigned char>(letter);
  }
}

}  // namespace

std::string ScriptJson(const nlohmann::ordered_json& json) {
  return absl::StrReplaceAll(Ascii(json), {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

std::string MarkupText(std::string_view text) {
  const std::string json = Ascii(std::string(text));
  const auto unit = [&](std::size_t at) {  // the code in \uXXXX
    return static_cast<unsigned>(std::stoul(json.substr(at + 2, 4), nullptr, 16));
  };
  std::string markup;
  for (std::size_t i = 1; i + 1 < json.size(); ++i) {  // between the quotes
    const char c = json[i];
    if (c != '\\') {
      if (c == '<' || c == '>' || c == '&' || c == '\'') {
        AppendCode(static_cast<unsigned char>(c), markup);
      } else {
        markup += c;
      }
    } else if (json[i + 1] != 'u') {
      const unsigned code = ShortEscape(json[++i]);
      if (code == '\\') {
        markup += '\\';
      } else {
        AppendCode(code, markup);
      }
    } else {
      unsigned code = unit(i);
      i += 5;
      if (code >= 0xD800 && code < 0xDC00) {
        code = 0x10000 + ((code - 0xD800) << 10) + (unit(i + 1) - 0xDC00);
        i += 6;
      }
      AppendCode(code, markup);
    }
  }
  return markup;
}

}  // namespace tidepool::tool
