// SPDX-License-Identifier: Apache-2.0
// The handler of SIGINT and SIGTERM.
#include "trace_replay/interrupt.h"

#include <csignal>

#include "trace_replay/caller.h"

namespace tidepool::tool {
namespace {

// One for all searches of the program: an interrupt ends those that follow too. Never destroyed,
// because a signal may arrive while the program exits.
std::stop_source* source = nullptr;

// Safe in a signal handler: without registered callbacks, request_stop() is one atomic operation.
void RequestStop(int /*signal*/) { source->request_stop(); }

}  // namespace

std::stop_token StopAtInterrupt() {
  if (CurrentCaller() != nullptr) return CurrentCaller()->stop;
  if (source == nullptr) source = new std::stop_source;
  struct sigaction action = {};
  action.sa_handler = RequestStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  return source->get_token();
}

}  // namespace tidepool::tool
