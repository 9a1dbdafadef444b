// SPDX-License-Identifier: Apache-2.0
// The table of variables, and the parser of the environment.
#include "bindings/cnmem/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "bindings/cnmem/values.h"
#include "tidepool/placement.h"

namespace tidepool::cnmem {
namespace {

constexpr std::string_view kPrefix = "TIDEPOOL_CNMEM_";

// Stores a value if it was parsed. Returns whether it was.
template <typename Target, typename Value>
bool Store(const std::optional<Value>& value, Target& target) {
  if (value.has_value()) target = *value;
  return value.has_value();
}

bool SetPlacement(std::string_view text, Settings& settings) {
  settings.placement = text;
  return MakePlacementPolicy(settings.placement).ok();
}

bool SetBudget(std::string_view text, Settings& settings) {
  return Store(ParsePercent(text), settings.budget_part) ||
         Store(ParseBytes(text), settings.budget_bytes);
}

bool SetMemory(std::string_view text, Settings& settings) {
  settings.has_virtual_memory = text == "virtual";
  return text == "virtual" || text == "segments";
}

bool SetTrace(std::string_view text, Settings& settings) {
  settings.trace = text;
  return true;
}

// All variables, in the order of the documentation.
struct Variable {
  std::string_view name;  // after the prefix
  std::string_view expected;
  bool (*set)(std::string_view text, Settings& settings);  // false: malformed
};
constexpr std::array<Variable, 9> kVariables = {{
    {"PLACEMENT", "the name of a placement policy: best-fit, exact-fit-first, ...", SetPlacement},
    {"BUDGET", "bytes (8589934592, 8GiB) or a part of the device's memory (80%)", SetBudget},
    {"MEMORY", "segments or virtual", SetMemory},
    {"GROWTH", "a part of the pool, from 0 to 1",
     [](std::string_view text, Settings& settings) {
       return Store(ParseFraction(text), settings.growth);
     }},
    {"REMAP", "0 or 1",
     [](std::string_view text, Settings& settings) {
       return Store(ParseSwitch(text), settings.remaps);
     }},
    {"WAIT", "a time such as 500ms, 2s or inf",
     [](std::string_view text, Settings& settings) {
       return Store(ParseWait(text), settings.wait);
     }},
    {"TRACE", "the beginning of the paths of traces", SetTrace},
    {"STATISTICS", "0 or 1",
     [](std::string_view text, Settings& settings) {
       return Store(ParseSwitch(text), settings.statistics);
     }},
    {"ERRORS", "0 or 1",
     [](std::string_view text, Settings& settings) {
       return Store(ParseSwitch(text), settings.errors);
     }},
}};

std::string VariableNames() {
  std::string names;
  for (const Variable& variable : kVariables) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(kPrefix),
                    std::string(variable.name));
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
    const auto* const found =
        std::find_if(kVariables.begin(), kVariables.end(),
                     [&](const Variable& variable) { return variable.name == name; });
    if (found == kVariables.end()) {
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
