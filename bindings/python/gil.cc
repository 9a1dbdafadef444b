// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/gil.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace tidepool::python {
namespace {

namespace nb = nanobind;

std::atomic<bool> is_end = false;
std::atomic<std::thread::id> ending_thread;

[[noreturn]] void StayForEver() {
  for (;;) pause();
}

// Calls a function of Python's C interface, which throws nothing: an exception here is the end of
// the thread. No object with a destructor may lie between this and the call.
template <typename Call>
auto CallUntilEnd(Call call) {
  try {
    return call();
  } catch (...) {
    StayForEver();
  }
}

}  // namespace

void BeginEnd() {
  ending_thread = std::this_thread::get_id();
  is_end = true;
}

bool IsEnding() { return is_end && ending_thread.load() != std::this_thread::get_id(); }

void TakeGil(PyThreadState* state) {
  if (IsEnding()) StayForEver();
  CallUntilEnd([state] { PyEval_RestoreThread(state); });
}

void StayWithoutGil() {
  PyEval_SaveThread();
  StayForEver();
}

nb::object CallPython(nb::handle function, const nb::tuple& arguments) {
  PyObject* const result =
      CallUntilEnd([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

bool IsMainThread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

}  // namespace tidepool::python
