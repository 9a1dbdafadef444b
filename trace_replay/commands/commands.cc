// SPDX-License-Identifier: Apache-2.0
// The commands of the tool, in the order of its help.
#include "trace_replay/command.h"

namespace tidepool::tool {

std::vector<Command> AddCommands(CLI::App& app) {
  return {AddInfo(app),      AddDiff(app),    AddSize(app),     AddPlan(app),     AddReplay(app),
          AddReport(app),    AddConvert(app), AddModel(app),    AddSchedule(app), AddFront(app),
          AddChain(app),     AddEmit(app),    AddSimulate(app), AddRun(app),      AddProfile(app),
          AddWorkspace(app), AddTune(app),    AddDryRun(app)};
}

}  // namespace tidepool::tool
