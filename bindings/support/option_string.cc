// SPDX-License-Identifier: Apache-2.0
// Reads one item at a time: a key, '=', and a value that may stand in quotes.
#include "bindings/support/option_string.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/nearest.h"

namespace tidepool::bindings {
namespace {

constexpr std::string_view kSeparators = ",;\n";
constexpr std::string_view kBlanks = " \t\r";

// Returns text of the caller for an error: printable, and not longer than a line.
std::string Shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  const std::string_view begin = text.substr(0, kMost);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(begin.data(), begin.size())),
                      text.size() > kMost ? "..." : "", "'");
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Removes the first `size` characters of `text` and returns them.
std::string_view Take(std::string_view& text, std::size_t size) {
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(taken.size());
  return taken;
}

absl::Status UnknownKey(std::string_view key) {
  std::vector<std::string> names;
  for (const Option& option : Options()) names.emplace_back(option.name);
  names = text::NearestFirst(key, std::move(names));
  return absl::InvalidArgumentError(
      absl::StrCat("no option ", Shown(key), ", expected one of ", absl::StrJoin(names, ", ")));
}

// Takes a value from the beginning of `text`, up to a separator.
absl::StatusOr<std::string_view> TakeValue(std::string_view key, std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with('"')) return Trimmed(Take(text, text.find_first_of(kSeparators)));
  text.remove_prefix(1);
  const std::size_t end = text.find('"');
  if (end == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("option ", Shown(key), ": the value has no closing quote"));
  }
  const std::string_view value = Take(text, end);
  text.remove_prefix(1);
  const std::string_view rest = Trimmed(Take(text, text.find_first_of(kSeparators)));
  if (rest.empty()) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("option ", Shown(key), ": ", Shown(rest),
                   " after the closing quote, expected a comma or the end"));
}

// Takes an item and stores its value. `given` are the options that came before.
absl::Status TakeItem(std::string_view& text, Settings& settings,
                      std::vector<const Option*>& given) {
  const std::size_t end = text.find_first_of("=,;\n");
  const std::string_view key = Trimmed(Take(text, end));
  if (end == std::string_view::npos || !text.starts_with('=')) {
    return absl::InvalidArgumentError(
        absl::StrCat("option ", Shown(key), " has no value, expected key=value"));
  }
  text.remove_prefix(1);
  const Option* const option = FindOption(key);
  if (option == nullptr) return UnknownKey(key);
  if (std::find(given.begin(), given.end(), option) != given.end()) {
    return absl::InvalidArgumentError(absl::StrCat("option ", Shown(key), " is given twice"));
  }
  given.push_back(option);
  const absl::StatusOr<std::string_view> value = TakeValue(key, text);
  if (!value.ok()) return value.status();
  if (!value->empty() && option->set(*value, settings)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("option ", Shown(key), " is ", Shown(*value),
                                                 ", expected ", std::string(option->expected)));
}

// Completes the settings by options that follow from others.
absl::Status Complete(const std::vector<const Option*>& given, Settings& settings) {
  if (settings.remaps && !settings.has_virtual_memory.value_or(true)) {
    return absl::InvalidArgumentError(
        "option 'remap' is 1 and option 'memory' is segments, expected memory=virtual");
  }
  if (!settings.trace.empty()) settings.is_recording = true;
  if (settings.plan.empty()) return absl::OkStatus();
  const bool has_placement =
      std::find(given.begin(), given.end(), FindOption("placement")) != given.end();
  if (has_placement && settings.placement != "planned") {
    return absl::InvalidArgumentError(
        absl::StrCat("option 'placement' is ", Shown(settings.placement),
                     " and option 'plan' is given, expected placement=planned"));
  }
  settings.placement = "planned";
  return absl::OkStatus();
}

// Takes all items. Returns the options that were given.
absl::StatusOr<std::vector<const Option*>> TakeAll(std::string_view text, Settings& settings) {
  std::vector<const Option*> given;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r,;\n"), text.size()));
    if (text.empty()) return given;
    if (absl::Status status = TakeItem(text, settings, given); !status.ok()) return status;
  }
}

// Checks the options of the variable. A program that names its device or keeps its streams relies
// on both.
absl::Status CheckVariable(const std::vector<const Option*>& given) {
  for (const Option* const option : given) {
    if (option->name != "device" && option->name != "streams") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("option ", Shown(option->name), " is the program's, expected another one"));
  }
  return absl::OkStatus();
}

absl::Status OfVariable(const absl::Status& error) {
  return absl::Status(error.code(), absl::StrCat(kOptionsVariable, ": ", error.message()));
}

}  // namespace

absl::StatusOr<Settings> ParseOptions(std::string_view text) { return ParseOptions(text, ""); }

absl::StatusOr<Settings> ParseOptions(std::string_view program, std::string_view variable) {
  Settings settings;
  auto given = TakeAll(program, settings);
  if (!given.ok()) return given.status();
  if (absl::Status status = Complete(*given, settings); !status.ok()) return status;
  const auto changed = TakeAll(variable, settings);
  if (!changed.ok()) return OfVariable(changed.status());
  if (absl::Status status = CheckVariable(*changed); !status.ok()) return OfVariable(status);
  given->insert(given->end(), changed->begin(), changed->end());
  if (absl::Status status = Complete(*given, settings); !status.ok()) return OfVariable(status);
  return settings;
}

}  // namespace tidepool::bindings
