// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as a heap profile of pprof, after a value of live bytes.
#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // sample_type {space, bytes}, and the texts "", "space", "bytes".
  constexpr char kHeader[] =
      "\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05space\x32\x05"
      "bytes";
  tidepool::fuzz::ReadWithHeader({kHeader, sizeof(kHeader) - 1}, data, size);
  return 0;
}
