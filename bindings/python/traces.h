// SPDX-License-Identifier: Apache-2.0
// Traces in memory, and the commands of the tool on them.
#ifndef TIDEPOOL_BINDINGS_PYTHON_TRACES_H_
#define TIDEPOOL_BINDINGS_PYTHON_TRACES_H_

#include <nanobind/nanobind.h>

namespace tidepool::python {

// Adds TraceData, read_trace, run_command and parse_size to the module.
void AddTraces(nanobind::module_& module);

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_TRACES_H_
