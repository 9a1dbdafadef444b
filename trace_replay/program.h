// SPDX-License-Identifier: Apache-2.0
// The program `tidepool`.
#ifndef TIDEPOOL_TRACE_REPLAY_PROGRAM_H_
#define TIDEPOOL_TRACE_REPLAY_PROGRAM_H_

namespace tidepool::tool {

// Runs the command that the arguments name, and returns the exit status: one of `Answer`. An error
// is one line on stderr.
int RunProgram(int argc, char** argv);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_PROGRAM_H_
