// SPDX-License-Identifier: Apache-2.0
// Work that takes long, on a thread of its own, which Ctrl-C stops. All calls that wait for memory,
// streams or answers wait here.
#ifndef TIDEPOOL_BINDINGS_PYTHON_WORK_H_
#define TIDEPOOL_BINDINGS_PYTHON_WORK_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <stop_token>
#include <string>

namespace tidepool::python {

// The work's side: a stop to obey, and progress to tell. Thread-safe.
struct WorkContext {
  std::stop_token stop;
  std::function<void(const std::string& text, double part)> show_progress;
};
using Work = std::function<void(const WorkContext&)>;

// Runs `work` on a thread of its own and waits for it without the GIL. Calls `show(text, part,
// seconds)` some times a second; `show` may be None. The work must not touch Python objects, and
// owns everything that it uses. The main thread looks for signals some times a second; another
// thread without `show` takes the GIL only at the end.
//
// Ctrl-C, and an exception of `show`, request the stop. The thread then has half a second to
// finish; after that it goes on alone until it obeys, at the latest until the interpreter exits.
// At the interpreter's end the call of another thread never returns.
// Throws that exception afterwards. If the thread has finished, the exception has the attribute
// `answer`, the result of the function `answer`.
// Throws OutOfMemoryError when the work had no memory, and Error for another exception of it.
void RunWork(Work work, nanobind::handle show = nanobind::none(),
             const std::function<nanobind::object()>& answer = nullptr);

// Stops and joins the threads that still run. The threads that wait for them stay until the process
// ends. For the end of the interpreter.
void FinishWork();

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_WORK_H_
