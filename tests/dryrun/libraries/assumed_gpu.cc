// SPDX-License-Identifier: Apache-2.0
// The GPU of these tests. The library reads it once, so it is set before main.
#include <cstdlib>

namespace {

const int is_set = setenv("CUDART_HOST_CAPABILITY", "70", 1) +
                   setenv("CUDART_HOST_ASSUMED_BYTES_PER_SECOND", "1e12", 1) +
                   setenv("CUDART_HOST_ASSUMED_OPERATIONS_PER_SECOND", "10e12,20e12,100e12", 1) +
                   setenv("CUDART_HOST_MULTIPROCESSORS", "132", 1) +
                   setenv("CUDART_HOST_THREADS_PER_MULTIPROCESSOR", "2048", 1);

}  // namespace
