// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as the rest of a line in RMM's debug log.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadWithHeader("[1][00:00:00:000001][error ] ", data, size);
  return 0;
}
