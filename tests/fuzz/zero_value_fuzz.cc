// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as a stream, as a stream with a correct header, and as data to compress.
// All instruction sets must compress it to the same stream and restore it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/copies/zvc/stream_parts.h"
#include "lib/copies/zvc/zero_value_format.h"
#include "tests/fuzz/fuzz_reader.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMostBytes = 1 << 20;  // limit for the output of a small stream of zeros

void Decompress(const Bytes& stream) {
  const auto opened = ZeroValueStream::Open(stream);
  if (!opened.ok() || opened->input_bytes() > kMostBytes) return;
  for (const ZeroValueInstructionSet set : ZeroValueInstructionSets()) {
    Bytes output(opened->input_bytes());
    const auto codec = ZeroValueCodec::Create({.instruction_set = set});
    (*codec)->Decompress(*opened, absl::MakeSpan(output)).IgnoreError();
    for (std::size_t block = 0; block < opened->blocks(); ++block) {
      Bytes part(opened->BlockBytes(block));
      opened->DecompressBlock(block, absl::MakeSpan(part), set).IgnoreError();
    }
  }
}

// Decompresses the input after a valid header, with the fields from the input's first bytes.
void DecompressSealed(const Bytes& input) {
  if (input.size() < 8) return;
  zvc::Header header;
  header.word_bytes = (input[0] & std::byte{1}) == std::byte{0} ? 2 : 4;
  header.mode = (input[0] & std::byte{6}) == std::byte{0} ? 1 : 0;
  header.input_bytes =
      std::to_integer<std::size_t>(input[1]) + std::to_integer<std::size_t>(input[2]) * 251;
  const std::size_t begin = zvc::PayloadsBegin(zvc::BlocksOf(header.input_bytes));
  Bytes stream(sizeof(header));
  stream.insert(stream.end(), input.begin() + 3, input.end());
  if (stream.size() < begin) stream.resize(begin);
  header.payload_bytes = stream.size() - begin;
  header.header_checksum = zvc::HeaderChecksum(header);
  std::memcpy(stream.data(), &header, sizeof(header));
  Decompress(stream);
}

void RoundTrip(const Bytes& input, ZeroValueWord word, ZeroValueMode mode) {
  Bytes first;
  for (const ZeroValueInstructionSet set : ZeroValueInstructionSets()) {
    const auto codec = ZeroValueCodec::Create({.word = word, .mode = mode, .instruction_set = set});
    Bytes stream(ZeroValueBound(input.size()));
    const auto bytes = (*codec)->Compress(input, absl::MakeSpan(stream));
    Require(bytes.ok());
    stream.resize(*bytes);
    if (set == ZeroValueInstructionSet::kScalar) first = stream;
    Require(stream == first);
    Bytes output(input.size());
    Require((*codec)->Decompress(stream, absl::MakeSpan(output)).ok());
    Require(output == input);
  }
}

}  // namespace
}  // namespace tidepool::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tidepool;  // NOLINT
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const fuzz::Bytes input(begin, begin + size);
  fuzz::Decompress(input);
  fuzz::DecompressSealed(input);
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    fuzz::RoundTrip(input, word, ZeroValueMode::kPacked);
    fuzz::RoundTrip(input, word, ZeroValueMode::kPlain);
  }
  return 0;
}
