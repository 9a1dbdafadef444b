// SPDX-License-Identifier: Apache-2.0
// Tests of refused input: invalid arguments, and streams damaged in every way. Buffers end at an
// inaccessible page, so that any access outside crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <random>

#include "tests/copies/zvc/buffers.h"
#include "tests/copies/zvc/slow_stream.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace {

using slow::Bytes;
using testing::HasSubstr;

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& text = "") {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(Options, AreChecked) {
  for (const int threads : {-1, 0, 257, 10000}) {
    ExpectError(ZeroValueCodec::Create({.threads = threads}).status(),
                absl::StatusCode::kInvalidArgument, "1 to 256");
  }
  ExpectError(ZeroValueCodec::Create({.word = static_cast<ZeroValueWord>(8)}).status(),
              absl::StatusCode::kInvalidArgument, "2 or 4");
  ExpectError(ZeroValueCodec::Create({.mode = static_cast<ZeroValueMode>(2)}).status(),
              absl::StatusCode::kInvalidArgument, "packed or plain");
  const auto set = static_cast<ZeroValueInstructionSet>(9);
  ExpectError(ZeroValueCodec::Create({.instruction_set = set}).status(),
              absl::StatusCode::kInvalidArgument, "instruction set");
  EXPECT_TRUE(ZeroValueCodec::Create({.threads = kMaxZeroValueThreads}).ok());
}

TEST(Compress, RefusesWhatOverlaps) {
  Bytes memory(20000);
  const absl::Span<std::byte> all(memory);
  for (const int threads : {1, 2}) {
    const auto codec = Codec({.threads = threads});
    for (const std::size_t begin : {0, 1, 999}) {
      ExpectError(codec->Compress(all.subspan(0, 1000), all.subspan(begin, 5000)).status(),
                  absl::StatusCode::kInvalidArgument, "overlaps");
      ExpectError(codec->Compress(all.subspan(begin, 1000), all.subspan(0, 1000)).status(),
                  absl::StatusCode::kInvalidArgument, "overlaps");
    }
    EXPECT_TRUE(codec->Compress(all.subspan(0, 1000), all.subspan(1000)).ok());
  }
}

TEST(Compress, SaysHowMuchItNeeds) {
  std::mt19937_64 random(1);
  const Bytes input = RandomInput(300000, 4, 0.5, Values::kRelu, random);
  const std::size_t needed = slow::Compress(input, 4, false).size();
  for (const int threads : {1, 2, 3}) {
    const auto codec = Codec({.threads = threads});
    for (const std::size_t room :
         {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{320},
          std::size_t{384}, std::size_t{5000}, needed / 2, needed - 64, needed - 1}) {
      const GuardedBuffer output(room);
      ExpectError(codec->Compress(input, output.span()).status(),
                  absl::StatusCode::kResourceExhausted, std::to_string(needed));
    }
    const GuardedBuffer output(needed);
    EXPECT_TRUE(codec->Compress(input, output.span()).ok());
  }
  ExpectError(Codec()->Compress({}, {}).status(), absl::StatusCode::kResourceExhausted, "64");
}

TEST(Decompress, SaysHowMuchItNeeds) {
  std::mt19937_64 random(2);
  const Bytes input = RandomInput(20001, 4, 0.5, Values::kRelu, random);
  const Bytes stream = slow::Compress(input, 4, false);
  for (const std::size_t room : {0, 1, 8192, 20000}) {
    const GuardedBuffer output(room);
    ExpectError(Codec()->Decompress(stream, output.span()).status(),
                absl::StatusCode::kResourceExhausted, "20001");
  }
  Bytes larger(20100, std::byte{1});
  EXPECT_EQ(*Codec()->Decompress(stream, absl::MakeSpan(larger)), 20001U);
  EXPECT_TRUE(std::all_of(larger.begin() + 20001, larger.end(),
                          [](std::byte byte) { return byte == std::byte{1}; }));
}

TEST(Decompress, RefusesWhatOverlaps) {
  Bytes memory = slow::Compress(Bytes(1000, std::byte{1}), 4, false);
  const std::size_t size = memory.size();
  memory.resize(size + 2000);
  const absl::Span<std::byte> all(memory);
  const absl::Span<std::byte> stream = all.subspan(0, size);
  ExpectError(Codec()->Decompress(stream, all.subspan(size - 1)).status(),
              absl::StatusCode::kInvalidArgument, "overlaps");
  ExpectError(Codec()->Decompress(stream, all).status(), absl::StatusCode::kInvalidArgument,
              "overlaps");
  ExpectError(ZeroValueStream::Open(stream)->DecompressBlock(0, all.subspan(size - 1, 1000)),
              absl::StatusCode::kInvalidArgument, "overlaps");
  EXPECT_TRUE(Codec()->Decompress(stream, all.subspan(size)).ok());
}

TEST(DecompressBlock, ChecksItsArguments) {
  const Bytes bytes = slow::Compress(Bytes(9000, std::byte{1}), 2, false);
  const auto stream = ZeroValueStream::Open(bytes);
  ASSERT_TRUE(stream.ok());
  Bytes output(8192);
  ExpectError(stream->DecompressBlock(2, absl::MakeSpan(output)), absl::StatusCode::kOutOfRange,
              "block 2");
  ExpectError(stream->DecompressBlock(1, absl::MakeSpan(output)),
              absl::StatusCode::kInvalidArgument, "808");
  ExpectError(stream->DecompressBlock(0, absl::MakeSpan(output).subspan(1)),
              absl::StatusCode::kInvalidArgument, "8192");
  ExpectError(
      stream->DecompressBlock(0, absl::MakeSpan(output), static_cast<ZeroValueInstructionSet>(9)),
      absl::StatusCode::kInvalidArgument, "instruction set");
  EXPECT_EQ(stream->nonzero_words(), 4500U);
  EXPECT_EQ(stream->input_bytes(), 9000U);
}

class Damaged : public testing::TestWithParam<ZeroValueInstructionSet> {
 protected:
  // Returns an input with a packed, an empty and a raw block, and a short packed block.
  static Bytes Input(std::size_t word_bytes) {
    std::mt19937_64 random(3);
    Bytes input = RandomInput(8192, word_bytes, 0.01, Values::kSigned, random);
    input.resize(std::size_t{2} * 8192);
    const Bytes end = RandomInput(2001, word_bytes, 0.01, Values::kRelu, random);
    input.insert(input.end(), end.begin(), end.end());
    return input;
  }

  void ExpectErrorOrInput(const Bytes& stream, const Bytes& input) const {
    const GuardedBuffer from(stream);
    const GuardedBuffer to(input.size());
    const auto codec = Codec({.instruction_set = GetParam()});
    const auto bytes = codec->Decompress(from.span(), to.span());
    if (bytes.ok()) {
      EXPECT_EQ(to.Contents(*bytes), input);
    } else {
    }
    // DecompressBlock does not check the checksum, but must write only its block.
    const auto opened = ZeroValueStream::Open(from.span());
    if (!opened.ok()) return;
    for (std::size_t block = 0; block < opened->blocks(); ++block) {
      const GuardedBuffer part(opened->BlockBytes(block));
      opened->DecompressBlock(block, part.span(), GetParam()).IgnoreError();
    }
  }

  // Makes the header's checksum correct, as an attacker would.
  static void Seal(Bytes& stream) {
    const auto checksum =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(stream.data()), 60));
    std::memcpy(&stream[60], &checksum, sizeof(checksum));
  }
};

TEST_P(Damaged, CutAtEveryByteOrLonger) {
  for (const std::size_t word_bytes : {2, 4}) {
    Bytes stream = slow::Compress(Input(word_bytes), word_bytes, false);
    for (std::size_t size = 0; size < stream.size(); ++size) {
      const GuardedBuffer cut(Bytes(stream.begin(), stream.begin() + static_cast<long>(size)));
      ExpectError(ZeroValueStream::Open(cut.span()).status(), absl::StatusCode::kDataLoss);
    }
    stream.push_back(std::byte{0});
    ExpectError(ZeroValueStream::Open(stream).status(), absl::StatusCode::kDataLoss);
  }
}

TEST_P(Damaged, EveryBitFlipped) {
  for (const std::size_t word_bytes : {2, 4}) {
    for (const bool is_plain : {false, true}) {
      const Bytes input = Input(word_bytes);
      Bytes stream = slow::Compress(input, word_bytes, is_plain);
      for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
        stream[bit / 8] ^= std::byte{1} << bit % 8;
        ExpectErrorOrInput(stream, input);
        if (bit / 8 < 60) {
          Bytes sealed = stream;
          Seal(sealed);
          ExpectErrorOrInput(sealed, input);
        }
        stream[bit / 8] ^= std::byte{1} << bit % 8;
        if (HasFailure()) FAIL() << "bit " << bit;
      }
    }
  }
}

// Many changes at once, mostly in the index.
TEST_P(Damaged, AtRandom) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t word_bytes = random() % 2 == 0 ? 2 : 4;
    const Bytes input = Input(word_bytes);
    Bytes stream = slow::Compress(input, word_bytes, false);
    for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t reach = random() % 2 == 0 ? 128 : stream.size();
      stream[random() % reach] = static_cast<std::byte>(random());
    }
    Seal(stream);
    ExpectErrorOrInput(stream, input);
  }
}

TEST_P(Damaged, HeadersThatSayTooMuch) {
  const Bytes good = slow::Compress(Bytes(5000, std::byte{1}), 4, false);
  const auto with = [&good](std::size_t at, std::uint64_t number, std::size_t width) {
    Bytes stream = good;
    std::memcpy(&stream[at], &number, width);
    Seal(stream);
    return ZeroValueStream::Open(stream).status();
  };
  ExpectError(with(0, 'x', 1), absl::StatusCode::kDataLoss, "unknown first bytes");
  ExpectError(with(8, 2, 2), absl::StatusCode::kUnimplemented, "version 2");
  ExpectError(with(10, 3, 1), absl::StatusCode::kDataLoss, "2 or 4");
  ExpectError(with(11, 2, 1), absl::StatusCode::kDataLoss, "mode 2");
  ExpectError(with(12, 4096, 4), absl::StatusCode::kDataLoss, "blocks of 4096");
  ExpectError(with(40, 1, 1), absl::StatusCode::kDataLoss, "reserved");
  ExpectError(with(72, 1, 1), absl::StatusCode::kDataLoss, "after the index");
  for (const std::uint64_t bytes :
       {UINT64_MAX, UINT64_MAX - 8191, std::uint64_t{1} << 63, std::uint64_t{1} << 50,
        (std::uint64_t{1} << 50) + 1, std::uint64_t{1} << 40, std::uint64_t{65537}}) {
    ExpectError(with(16, bytes, 8), absl::StatusCode::kDataLoss);
    ExpectError(with(24, bytes, 8), absl::StatusCode::kDataLoss);
  }
}

// Opening does not detect it, because the index fits both lengths.
TEST_P(Damaged, HeadersOfAnotherLength) {
  const Bytes good = slow::Compress(Bytes(5000, std::byte{1}), 4, false);
  const auto with = [&good](std::uint64_t number) {
    Bytes stream = good;
    std::memcpy(&stream[16], &number, sizeof(number));
    Seal(stream);
    EXPECT_TRUE(ZeroValueStream::Open(stream).ok());
    Bytes output(9000);
    return Codec({.instruction_set = GetParam()})
        ->Decompress(stream, absl::MakeSpan(output))
        .status();
  };
  ExpectError(with(5001), absl::StatusCode::kDataLoss, "hash of its contents");
  ExpectError(with(8193), absl::StatusCode::kDataLoss, "hash of its contents");
  ExpectError(with(4999), absl::StatusCode::kDataLoss, "after the end");
}

TEST_P(Damaged, EntriesThatCannotBe) {
  const Bytes good = slow::Compress(Input(2), 2, false);
  const auto with = [&good](std::size_t block, std::uint64_t count, std::uint64_t bits,
                            std::uint64_t flags, std::uint64_t base) {
    Bytes stream = good;
    const std::uint64_t entry = slow::EntryOf(count, bits, flags, base);
    std::memcpy(&stream[64 + 8 * block], &entry, sizeof(entry));
    return ZeroValueStream::Open(stream).status();
  };
  using enum absl::StatusCode;
  ExpectError(with(0, 4097, 1, 0, 0), kDataLoss, "block 0: it has 4097 words");
  ExpectError(with(2, 1002, 1, 0, 0), kDataLoss, "at most 1001");
  ExpectError(with(1, 0, 1, 0, 0), kDataLoss, "no words");
  ExpectError(with(1, 0, 0, 2, 0), kDataLoss, "no words");
  ExpectError(with(0, 10, 17, 0, 0), kDataLoss, "17 bits");
  ExpectError(with(0, 10, 255, 0, 0), kDataLoss, "255 bits");
  ExpectError(with(0, 10, 5, 3, 0), kDataLoss, "flags");
  ExpectError(with(0, 10, 5, 4, 0), kDataLoss, "flags");
  ExpectError(with(0, 10, 5, 0, 65536), kDataLoss, "base");
  ExpectError(with(0, 10, 16, 0, 1), kDataLoss, "contradict");
  ExpectError(with(0, 10, 16, 1, 0), kDataLoss, "contradict");
  ExpectError(with(0, 10, 5, 2, 0), kDataLoss, "contradict");
  ExpectError(with(0, 4095, 15, 0, 0), kDataLoss, "raw");
  ExpectError(with(1, 1, 1, 0, 0), kDataLoss, "as the index says");
}

// The index is consistent but contradicts the payload.
TEST_P(Damaged, MasksThatNameOthers) {
  const Bytes input = Input(4);
  Bytes stream = slow::Compress(input, 4, false);
  const auto open = [&stream] { return *ZeroValueStream::Open(stream); };
  Bytes output(8192);
  Bytes end(2001);
  stream[128] ^= std::byte{1};
  ExpectError(open().DecompressBlock(0, absl::MakeSpan(output), GetParam()),
              absl::StatusCode::kDataLoss, "mask");
  ExpectError(Codec({.threads = 2, .instruction_set = GetParam()})
                  ->Decompress(stream, absl::MakeSpan(output = Bytes(20000)))
                  .status(),
              absl::StatusCode::kDataLoss, "block 0: its mask");
  // Moves a word of the last block beyond its end.
  const std::size_t mask =
      stream.size() -
      slow::CompressBlock(Bytes(input.begin() + 16384, input.end()), 4, false).payload.size();
  const auto set = std::find_if(stream.begin() + static_cast<long>(mask), stream.end(),
                                [](std::byte byte) { return byte != std::byte{0}; });
  *set &=
      *set ^
      std::byte{static_cast<std::uint8_t>(1U << std::countr_zero(std::to_integer<unsigned>(*set)))};
  stream[mask + 255] |= std::byte{0x80};
  ExpectError(open().DecompressBlock(2, absl::MakeSpan(end), GetParam()),
              absl::StatusCode::kDataLoss, "after the end");
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Damaged, testing::ValuesIn(ZeroValueInstructionSets()),
                         [](const auto& param) {
                           std::string name(ZeroValueInstructionSetName(param.param));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tidepool
