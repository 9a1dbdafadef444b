// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as rows of an RMM log.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("Thread,Time,Action,Pointer,Size,Stream\n", data, size);
  return 0;
}
