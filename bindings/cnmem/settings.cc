// SPDX-License-Identifier: Apache-2.0
// Reads the variables by the table of options that all bindings share.
#include "bindings/cnmem/settings.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bindings/support/values.h"

namespace tidepool::cnmem {
namespace {

using bindings::Option;
using bindings::Options;
using bindings::ParseSwitch;

constexpr std::string_view kPrefix = "TIDEPOOL_CNMEM_";

std::string VariableName(const Option& option) {
  return absl::StrCat(std::string(kPrefix), absl::AsciiStrToUpper(std::string(option.name)));
}

// Returns the option of a variable by its name after the prefix, or null.
const Option* FindVariable(std::string_view name) {
  for (const Option& option : Options()) {
    if (option.is_variable && absl::AsciiStrToUpper(std::string(option.name)) == name)
      return &option;
  }
  return nullptr;
}

std::string VariableNames() {
  std::string names;
  for (const Option& option : Options()) {
    if (option.is_variable)
      absl::StrAppend(&names, names.empty() ? "" : ", ", VariableName(option));
  }
  return names;
}

std::string Ignored(const std::string& line, std::string_view expected) {
  return absl::StrCat("tidepool: ", line, " is ignored, expected ", std::string(expected));
}

}  // namespace

Settings ReadSettings(const std::vector<std::string>& environment,
                      std::vector<std::string>* complaints) {
  Settings settings;
  std::string remap_line;
  for (const std::string& line : environment) {
    const std::string_view text = line;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(kPrefix.size(), equals - kPrefix.size());
    const std::string_view value = text.substr(equals + 1);
    if (value.empty()) continue;
    const Option* const found = FindVariable(name);
    if (found == nullptr) {
      complaints->push_back(Ignored(line, "one of " + VariableNames()));
      continue;
    }
    Settings changed = settings;
    if (found->set(value, changed)) {
      settings = changed;
    } else {
      complaints->push_back(Ignored(line, found->expected));
    }
    if (name == "REMAP") remap_line = line;
  }
  if (settings.remaps && !settings.has_virtual_memory.value_or(true)) {
    settings.remaps = false;
    complaints->push_back(Ignored(remap_line, "0 where memory is segments"));
  }
  return settings;
}

Settings ReadSettings() {
  static auto& printed = *new std::set<std::string>();
  std::vector<std::string> environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    environment.emplace_back(*line);
  }
  std::vector<std::string> complaints;
  Settings settings = ReadSettings(environment, &complaints);
  for (const std::string& complaint : complaints) {
    if (printed.insert(complaint).second) std::fprintf(stderr, "%s\n", complaint.c_str());
  }
  return settings;
}

bool ErrorsOfEnvironment() {
  const char* const text = std::getenv("TIDEPOOL_CNMEM_ERRORS");
  return text != nullptr && ParseSwitch(text).value_or(false);
}

}  // namespace tidepool::cnmem
