// An interrupt from the keyboard as the wish to have what there is so far.
#ifndef TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_
#define TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_

#include <stop_token>

namespace tidepool::tool {

// A stop is requested by the first SIGINT from here on; the second one ends the program, as
// without this. Once a program.
std::stop_token StopAtInterrupt();

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_INTERRUPT_H_
