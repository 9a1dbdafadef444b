// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidepool::cudart_host {
namespace {

std::string Without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Removes an end if the text has it.
void Remove(std::string_view& text, std::string_view end) {
  if (text.ends_with(end)) text.remove_suffix(end.size());
}

// Returns the readable name, without namespaces that have no name.
std::string Demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  if (text == nullptr) return "";
  return Without(text.get(), "(anonymous namespace)::");
}

bool Opens(char one) { return one == '<' || one == '(' || one == '{' || one == '['; }
bool Closes(char one) { return one == '>' || one == ')' || one == '}' || one == ']'; }

// Returns the offset of the first bracket or the end.
std::size_t FindList(std::string_view text) {
  const std::size_t found = text.find_first_of("<(");
  return found == std::string_view::npos ? text.size() : found;
}

// Returns the offset after the bracket that closes the list at the beginning of `text`.
std::size_t EndOfList(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += Opens(text[i]) ? 1 : Closes(text[i]) ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

// Returns the rest of `text` after the last one of some characters.
std::string LastPart(std::string_view text, const char* separators) {
  return std::string(text.substr(text.find_last_of(separators) + 1));
}

}  // namespace

std::vector<std::string> ListOf(std::string_view text) {
  std::vector<std::string> found;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size() && depth >= 0; ++i) {
    depth += Opens(text[i]) ? 1 : Closes(text[i]) ? -1 : 0;
    if (depth > 0 || (depth == 0 && text[i] != ',')) continue;
    const std::string_view one = Trimmed(text.substr(begin, i - begin));
    if (!one.empty()) found.emplace_back(one);
    begin = i + 1;
  }
  return found;
}

NameParts PartsOfType(std::string_view type) {
  const std::size_t list = FindList(type);
  NameParts parts = {.path = LastPart(type.substr(0, list), " "),
                     .name = LastPart(type.substr(0, list), ": "),
                     .templates = {},
                     .parameters = {}};
  if (list < type.size() && type[list] == '<') parts.templates = ListOf(type.substr(list + 1));
  return parts;
}

NameParts PartsOfMangled(const char* mangled) {
  const std::string whole = Demangled(mangled);
  NameParts parts = PartsOfType(whole);
  std::string_view rest = std::string_view(whole).substr(FindList(whole));
  if (rest.starts_with("<")) rest.remove_prefix(EndOfList(rest));
  if (rest.starts_with("(")) parts.parameters = ListOf(rest.substr(1));
  return parts;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::int64_t NumberAfter(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(at + before.size());
  std::int64_t number = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return number;
}

std::int64_t SizeOfType(std::string_view type) {
  static const auto* const sizes =
      new std::vector<std::pair<std::string_view, std::int64_t>>{{"bool", 1},
                                                                 {"char", 1},
                                                                 {"signed char", 1},
                                                                 {"unsigned char", 1},
                                                                 {"short", 2},
                                                                 {"unsigned short", 2},
                                                                 {"int", 4},
                                                                 {"unsigned int", 4},
                                                                 {"long", 8},
                                                                 {"unsigned long", 8},
                                                                 {"long long", 8},
                                                                 {"unsigned long long", 8},
                                                                 {"float", 4},
                                                                 {"double", 8},
                                                                 {"c10::Half", 2},
                                                                 {"c10::BFloat16", 2},
                                                                 {"c10::complex<c10::Half>", 4},
                                                                 {"c10::complex<float>", 8},
                                                                 {"c10::complex<double>", 16}};
  for (const char* const end : {" restrict", "*", "&", " const", " volatile"}) Remove(type, end);
  if (Contains(type, "TensorInfo<")) return SizeOfType(ListOf(type.substr(type.find('<') + 1))[0]);
  if (Contains(type, "OpaqueType<")) return NumberAfter(type, "OpaqueType<");
  if (type.starts_with("c10::Float8")) return 1;
  for (const auto& [name, size] : *sizes) {
    if (name == type) return size;
  }
  return 0;
}

}  // namespace tidepool::cudart_host
