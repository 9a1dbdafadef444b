// SPDX-License-Identifier: Apache-2.0
// The exceptions of the package, and statuses as exceptions.
#ifndef TIDEPOOL_BINDINGS_PYTHON_ERRORS_H_
#define TIDEPOOL_BINDINGS_PYTHON_ERRORS_H_

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::python {

// Adds Error, InputError, OutOfMemoryError and DeadlineError to the module.
void AddErrors(nanobind::module_& module);

// Throws the exception of a status that is no OK. The caller holds the GIL.
[[noreturn]] void Raise(const absl::Status& status);

// Throws InputError for a path or an argument that C functions would cut short.
void CheckHasNoNull(const std::string& text);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename Value>
Value Check(absl::StatusOr<Value> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_ERRORS_H_
