// SPDX-License-Identifier: Apache-2.0
// Option strings: "key=value,key=value", of the program and of the variable TIDEPOOL_OPTIONS.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_
#define TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "bindings/support/settings.h"

namespace tidepool::bindings {

// Parses options as c_api.h describes them. InvalidArgument for an unknown key, with the known
// keys, nearest first; for a key given twice, a malformed value, and options that contradict each
// other. O(characters).
absl::StatusOr<Settings> ParseOptions(std::string_view text);

// The variable of the environment with options of an operator.
inline constexpr const char* kOptionsVariable = "TIDEPOOL_OPTIONS";

// Parses the options of a program, and then those of kOptionsVariable, which take the place of the
// program's. InvalidArgument also for an option of the variable that is the program's alone:
// `device` and `streams`. O(characters).
absl::StatusOr<Settings> ParseOptions(std::string_view program, std::string_view variable);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_
