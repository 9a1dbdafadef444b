// SPDX-License-Identifier: Apache-2.0
// The layout of help texts, and the usage line of a command.
#ifndef TIDEPOOL_TRACE_REPLAY_HELP_H_
#define TIDEPOOL_TRACE_REPLAY_HELP_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace tidepool::tool {

// Lays out help in lines of at most 100 columns: description, usage, arguments, commands, options
// by group, examples. The mode kAll adds the groups that are `IsMore`.
std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

// Whether help shows a group of options with --help-all alone: its name begins with "More: ".
bool IsMore(const std::string& group);

// "tidepool size".
std::string FullName(const CLI::App& app);
// "tidepool run GRAPH --memory SIZE [OPTIONS]".
std::string UsageLine(const CLI::App& app);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_HELP_H_
