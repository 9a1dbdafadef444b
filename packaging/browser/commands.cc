// SPDX-License-Identifier: Apache-2.0
// The commands that the page in the browser runs, in the place of
// trace_replay/commands/commands.cc.
#include "trace_replay/command.h"

namespace tidepool::tool {

std::vector<Command> AddCommands(CLI::App& app) { return {AddInfo(app), AddReport(app)}; }

}  // namespace tidepool::tool
