// SPDX-License-Identifier: Apache-2.0
#include "bindings/support/variables.h"

#include <unistd.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/log.h"

namespace tidepool::bindings {

std::vector<std::string> Environment() {
  std::vector<std::string> environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    environment.emplace_back(*line);
  }
  return environment;
}

std::string IgnoredVariable(std::string_view line, std::string_view expected) {
  return absl::StrCat(std::string(line), " is ignored, expected ", std::string(expected));
}

void WarnOnce(const std::vector<std::string>& lines) {
  static auto& mutex = *new locks::Mutex();
  static auto& told = *new std::set<std::string>();
  const locks::MutexLock lock(&mutex);
  for (const std::string& line : lines) {
    if (told.insert(line).second) Log(LogLevel::kWarning, line);
  }
}

std::string VariableName(std::string_view prefix, std::string_view option) {
  return absl::StrCat(std::string(prefix), absl::AsciiStrToUpper(std::string(option)));
}

}  // namespace tidepool::bindings
