// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as a profiler's Chrome trace.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("{\"traceEvents\":[", data, size);
  return 0;
}
