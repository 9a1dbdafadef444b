// SPDX-License-Identifier: Apache-2.0
// The module tidepool._native.
#include <nanobind/nanobind.h>

#include "bindings/python/errors.h"
#include "bindings/python/pools.h"
#include "bindings/python/traces.h"

NB_MODULE(_native, module) {
  module.doc() = "The C++ library of tidepool. Use the package tidepool.";
  // Buffers that live until the interpreter exits are no mistake.
  nanobind::set_leak_warnings(false);
  module.attr("version") = TIDEPOOL_VERSION;
  tidepool::python::AddErrors(module);
  tidepool::python::AddTraces(module);
  tidepool::python::AddPools(module);
}
