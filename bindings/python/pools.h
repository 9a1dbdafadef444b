// SPDX-License-Identifier: Apache-2.0
// Pools and buffers as Python classes.
#ifndef TIDEPOOL_BINDINGS_PYTHON_POOLS_H_
#define TIDEPOOL_BINDINGS_PYTHON_POOLS_H_

#include <nanobind/nanobind.h>

namespace tidepool::python {

// Adds Pool and Buffer to the module.
void AddPools(nanobind::module_& module);

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_POOLS_H_
