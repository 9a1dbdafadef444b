// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input after the magic number of gzip.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("\x1f\x8b", data, size);
  return 0;
}
