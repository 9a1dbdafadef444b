// SPDX-License-Identifier: Apache-2.0
// Reads the variables by the table of options that all bindings share.
#include "bindings/cnmem/settings.h"

#include <cstdlib>
#include <string_view>

#include "bindings/support/values.h"
#include "bindings/support/variables.h"

namespace tidepool::cnmem {
namespace {

constexpr std::string_view kPrefix = "TIDEPOOL_CNMEM_";

}  // namespace

Settings ReadSettings(const std::vector<std::string>& environment,
                      std::vector<std::string>* complaints) {
  Settings settings =
      bindings::ReadVariables(kPrefix, bindings::Options(), environment, complaints);
  if (settings.remaps && !settings.has_virtual_memory.value_or(true)) {
    settings.remaps = false;
    complaints->push_back(
        bindings::IgnoredVariable("TIDEPOOL_CNMEM_REMAP=1", "0 where memory is segments"));
  }
  return settings;
}

Settings ReadSettings() {
  std::vector<std::string> complaints;
  Settings settings = ReadSettings(bindings::Environment(), &complaints);
  bindings::WarnOnce(complaints);
  return settings;
}

bool ErrorsOfEnvironment() {
  const char* const text = std::getenv("TIDEPOOL_CNMEM_ERRORS");
  return text != nullptr && bindings::ParseSwitch(text).value_or(false);
}

}  // namespace tidepool::cnmem
