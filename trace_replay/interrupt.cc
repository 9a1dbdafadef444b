#include "trace_replay/interrupt.h"

#include <csignal>

namespace tidepool::tool {
namespace {

// Never destroyed: a signal may come late.
std::stop_source* source = nullptr;

// To request a stop is an atomic operation as long as nobody has registered a callback.
void RequestStop(int /*signal*/) { source->request_stop(); }

}  // namespace

std::stop_token StopAtInterrupt() {
  source = new std::stop_source;
  struct sigaction action = {};
  action.sa_handler = RequestStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  return source->get_token();
}

}  // namespace tidepool::tool
