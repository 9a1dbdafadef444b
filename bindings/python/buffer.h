// SPDX-License-Identifier: Apache-2.0
// The Python class Buffer: memory of a pool for NumPy, DLPack and the buffer protocol.
#ifndef TIDEPOOL_BINDINGS_PYTHON_BUFFER_H_
#define TIDEPOOL_BINDINGS_PYTHON_BUFFER_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "bindings/python/host_pool.h"

namespace tidepool::python {

// Memory of a pool. Arrays that view it share it, so it returns to the pool with the last of them.
struct Buffer {
  std::shared_ptr<Allocation> allocation;  // null after free()
};

// Adds Stream and Buffer to the module.
void AddBuffer(nanobind::module_& module);

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_BUFFER_H_
