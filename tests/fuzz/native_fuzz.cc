// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as a native trace, and as the contents of a block with correct checksums,
// which a fuzzer would not find.
#include "lib/trace/native/native_encoder.h"
#include "tests/fuzz/fuzz_reader.h"

namespace {

std::string Number(std::uint32_t value) {
  std::string bytes(4, '\0');
  tidepool::native::Store32(value, bytes.data());
  return bytes;
}

std::string FileWithBlock(std::string_view contents) {
  namespace native = tidepool::native;
  const tidepool::native::NativeEncoder encoder(512, tidepool::TraceFormat::kNative);
  const std::string sizes =
      Number(static_cast<std::uint32_t>(contents.size())) + Number(native::Checksum(contents));
  return std::string(encoder.output()) + sizes + Number(native::Checksum(sizes)) +
         std::string(contents);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  tidepool::fuzz::Read(input);
  // Names of a stream and a thread, which must come before an event.
  constexpr std::string_view kNames("\0\x05\0\x06\0", 5);
  tidepool::fuzz::Read(FileWithBlock(input));
  tidepool::fuzz::Read(FileWithBlock(std::string(kNames) + std::string(input)));
  return 0;
}
