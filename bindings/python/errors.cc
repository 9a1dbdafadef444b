// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/errors.h"

#include <nanobind/stl/string.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::python {
namespace {

namespace nb = nanobind;

constexpr std::size_t kMostShown = 40;

// Live as long as the process, as exceptions may be raised until its end.
PyObject* base_error = nullptr;
PyObject* input_error = nullptr;
PyObject* out_of_memory_error = nullptr;
PyObject* deadline_error = nullptr;

// Makes an exception class of the module. The package renames it to `tidepool.NAME`.
PyObject* AddError(nb::module_& module, const std::string& name, const char* text,
                   const nb::tuple& bases) {
  const std::string full_name = nb::cast<std::string>(module.attr("__name__")) + "." + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), text, bases.ptr(), nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name.c_str()) = nb::borrow(type);
  return type;
}

nb::handle TypeOf(const absl::Status& status) {
  if (absl::IsInternal(status)) return base_error;
  if (absl::IsResourceExhausted(status)) return out_of_memory_error;
  return absl::IsDeadlineExceeded(status) ? deadline_error : input_error;
}

[[noreturn]] void RaiseAs(nb::handle type, const std::string& text) {
  // A file may have a name that is no UTF-8.
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  PyErr_SetObject(type.ptr(), message.ptr());
  throw nb::python_error();
}

}  // namespace

void AddErrors(nb::module_& module) {
  base_error = AddError(module, "Error", "Any error of tidepool.",
                        nb::make_tuple(nb::handle(PyExc_Exception)));
  input_error = AddError(module, "InputError", "A file, a value or a call that is wrong.",
                         nb::make_tuple(nb::handle(base_error), nb::handle(PyExc_ValueError)));
  out_of_memory_error =
      AddError(module, "OutOfMemoryError", "A pool or the machine has too little memory.",
               nb::make_tuple(nb::handle(base_error), nb::handle(PyExc_MemoryError)));
  deadline_error = AddError(module, "DeadlineError", "No memory came free within the given time.",
                            nb::make_tuple(nb::handle(base_error), nb::handle(PyExc_TimeoutError)));
}

void CheckHasNoNull(const std::string& text) {
  if (text.find('\0') == std::string::npos) return;
  Raise(absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text.substr(0, kMostShown)),
                                                "' has a null character, expected a text "
                                                "without")));
}

void Raise(const absl::Status& status) { RaiseAs(TypeOf(status), std::string(status.message())); }

}  // namespace tidepool::python
