// SPDX-License-Identifier: Apache-2.0
// Errors of CLI11 in the words of the command line.
#ifndef TIDEPOOL_TRACE_REPLAY_ARGUMENT_ERRORS_H_
#define TIDEPOOL_TRACE_REPLAY_ARGUMENT_ERRORS_H_

#include <CLI/CLI.hpp>
#include <string>

namespace tidepool::tool {

// Returns one line about `error`, which `app` threw while it parsed: the argument, and the
// arguments that were expected.
std::string ArgumentError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_ARGUMENT_ERRORS_H_
