// SPDX-License-Identifier: Apache-2.0
// Settings by environment variables: PREFIX and the name of an option in upper case.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_VARIABLES_H_
#define TIDEPOOL_BINDINGS_SUPPORT_VARIABLES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/support/settings.h"

namespace tidepool::bindings {

// Returns the lines "NAME=value" of the environment of this process.
std::vector<std::string> Environment();

// Returns the complaint about a variable that is ignored.
std::string IgnoredVariable(std::string_view line, std::string_view expected);

// Sends lines to the log as warnings, each once in the life of the process. Thread-safe.
void WarnOnce(const std::vector<std::string>& lines);

// Returns the name of an option's variable.
std::string VariableName(std::string_view prefix, std::string_view option);

// Returns the settings that variables describe. Skips names without the prefix. Adds a line to
// `complaints` for each malformed value and each unknown name with the prefix. Such lines are
// ignored, and so are empty values.
template <typename Chosen>
Chosen ReadVariables(std::string_view prefix, std::span<const OptionOf<Chosen>> options,
                     const std::vector<std::string>& environment,
                     std::vector<std::string>* complaints) {
  Chosen settings;
  for (const std::string& line : environment) {
    const std::string_view text = line;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(prefix) || equals == std::string_view::npos) continue;
    const std::string_view value = text.substr(equals + 1);
    if (value.empty()) continue;
    const OptionOf<Chosen>* found = nullptr;
    std::string names = "one of ";
    for (const OptionOf<Chosen>& option : options) {
      if (!option.is_variable) continue;
      const std::string name = VariableName(prefix, option.name);
      if (name == text.substr(0, equals)) found = &option;
      names += (names.size() > 7 ? ", " : "") + name;
    }
    Chosen changed = settings;
    if (found != nullptr && found->set(value, changed)) {
      settings = changed;
    } else {
      complaints->push_back(IgnoredVariable(line, found == nullptr ? names : found->expected));
    }
  }
  return settings;
}

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_VARIABLES_H_
