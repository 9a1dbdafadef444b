// SPDX-License-Identifier: Apache-2.0
// Waits without the GIL, and calls of Python functions, by threads that the interpreter may end
// before they return.
//
// Python before 3.14 ends a thread that takes the GIL during the interpreter's end: it unwinds the
// stack, which aborts the process at the first noexcept function of C++. Such threads stay here
// until the process ends, as those of Python 3.14 do.
#ifndef TIDEPOOL_BINDINGS_PYTHON_GIL_H_
#define TIDEPOOL_BINDINGS_PYTHON_GIL_H_

#include <nanobind/nanobind.h>

#include <utility>

namespace tidepool::python {

// Says that the interpreter ends: from now on no other thread than the caller takes the GIL after
// a wait.
void BeginEnd();

// Ends like PyEval_RestoreThread, or never.
void TakeGil(PyThreadState* state);

// Stays until the process ends, without the GIL.
[[noreturn]] void StayWithoutGil();

// Whether BeginEnd was called, by another thread.
bool IsEnding();

// Calls a function without the GIL, and returns its result, which is no Python object. The function
// throws nothing.
template <typename Function>
auto WithoutGil(Function function) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = function();
  TakeGil(state);
  return result;
}

// Calls a Python function. Throws its exception.
nanobind::object CallPython(nanobind::handle function, const nanobind::tuple& arguments);

// Whether this thread is the one that Python runs signal handlers on.
bool IsMainThread();

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_GIL_H_
