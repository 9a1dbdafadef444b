// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as rows of an operation CSV.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("op,id,size,hint\n", data, size);
  return 0;
}
