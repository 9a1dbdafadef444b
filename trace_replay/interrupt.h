// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a request for the best answer so far.
#ifndef TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_
#define TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_

#include <stop_token>

namespace tidepool::tool {

// Returns the token of the program that runs the command. Without one, a token of which the first
// SIGINT or SIGTERM after this call requests the stop. The second one of the same kind ends the
// program. All calls return the same token. Not thread-safe.
std::stop_token StopAtInterrupt();

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_
