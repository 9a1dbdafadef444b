// SPDX-License-Identifier: Apache-2.0
// The settings that users choose by environment variables (README.md in this folder).
#ifndef TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_
#define TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_

#include <string>
#include <vector>

#include "bindings/support/settings.h"

namespace tidepool::cnmem {

using bindings::Settings;

// Parses lines "NAME=value" as in `environ`, and skips names without our prefix. Adds a line to
// `complaints` for each malformed value and each unknown name with our prefix. Such lines are
// ignored, and so are empty values.
Settings ReadSettings(const std::vector<std::string>& environment,
                      std::vector<std::string>* complaints);

// Parses the environment of this process. Prints each complaint on stderr once in the life of the
// process. Not thread-safe.
Settings ReadSettings();

// Returns whether errors are printed before cnmemInit, when no settings have been read yet.
bool ErrorsOfEnvironment();

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_
