// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as rows of a memory timeline.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("[[-1,1,512,0],", data, size);
  return 0;
}
