// SPDX-License-Identifier: Apache-2.0
// Categories of the user: `--category NAME=REGEX`.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_CATEGORY_RULES_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_CATEGORY_RULES_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/categories.h"

namespace tidepool::tool {

// Parses options NAME=REGEX. A regular expression is POSIX extended, without references to groups:
// the C library matches those in linear time. InvalidArgument for any other text.
absl::StatusOr<std::vector<CategoryRule>> ParseCategoryRules(
    const std::vector<std::string>& options);

// `--category`, any number of times.
CLI::Option* AddCategoryOption(CLI::App& app, std::vector<std::string>& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_CATEGORY_RULES_H_
