// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as rows of a lifetime CSV.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("id,lower,upper,size\n", data, size);
  return 0;
}
