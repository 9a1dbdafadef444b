// SPDX-License-Identifier: Apache-2.0
// Pickles made from JSON, so that tests can show their contents, and by hand, opcode by opcode.
#ifndef TIDEPOOL_TESTS_SUPPORT_PICKLED_H_
#define TIDEPOOL_TESTS_SUPPORT_PICKLED_H_

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace tidepool::testing {

inline std::string LittleEndian(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

inline std::string Opcodes(const nlohmann::json& json) {
  std::string bytes;
  if (json.is_null()) return "N";
  if (json.is_boolean()) return json.get<bool>() ? "\x88" : "\x89";
  if (json.is_number_float())
    return "G" +
           LittleEndian(__builtin_bswap64(std::bit_cast<std::uint64_t>(json.get<double>())), 8);
  if (json.is_number()) {
    return "\x8a\x08" + LittleEndian(static_cast<std::uint64_t>(json.get<std::int64_t>()), 8);
  }
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    return "X" + LittleEndian(text.size(), 4) + text;
  }
  for (const auto& [key, value] : json.items())
    bytes += (json.is_object() ? Opcodes(key) : "") + Opcodes(value);
  return json.is_object() ? "}(" + bytes + "u" : "](" + bytes + "e";
}

// Pickles with protocol 2, without shared objects.
inline std::string Pickled(const nlohmann::json& json) { return "\x80\x02" + Opcodes(json) + "."; }

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_PICKLED_H_
