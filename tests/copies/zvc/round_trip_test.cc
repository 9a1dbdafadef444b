// SPDX-License-Identifier: Apache-2.0
// Tests of round trips: for every instruction set and any number of threads, streams equal those of
// the slow model, and decompress to the input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "tests/copies/zvc/buffers.h"
#include "tests/copies/zvc/slow_stream.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace {

using slow::Bytes;

void ExpectRoundTrip(const ZeroValueCodec& codec, const Bytes& input, bool at_begin) {
  const ZeroValueOptions& options = codec.options();
  const Bytes expected = slow::Compress(input, static_cast<std::size_t>(options.word),
                                        options.mode == ZeroValueMode::kPlain);
  ASSERT_LE(expected.size(), ZeroValueBound(input.size()));
  const GuardedBuffer from(input, at_begin);
  const GuardedBuffer stream(expected.size(), at_begin);
  const auto compressed = codec.Compress(from.span(), stream.span());
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  ASSERT_EQ(*compressed, expected.size());
  ASSERT_EQ(stream.Contents(expected.size()), expected);

  const GuardedBuffer to(input.size(), at_begin);
  const auto decompressed = codec.Decompress(stream.span(), to.span());
  ASSERT_TRUE(decompressed.ok()) << decompressed.status();
  ASSERT_EQ(*decompressed, input.size());
  ASSERT_EQ(to.Contents(input.size()), input);

  const auto opened = ZeroValueStream::Open(stream.span());
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->word(), options.word);
  ASSERT_EQ(opened->mode(), options.mode);
  for (std::size_t block = 0; block < opened->blocks(); ++block) {
    const GuardedBuffer part(opened->BlockBytes(block), at_begin);
    ASSERT_TRUE(opened->DecompressBlock(block, part.span(), codec.instruction_set()).ok());
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(block * kZeroValueBlockBytes);
    ASSERT_EQ(part.Contents(opened->BlockBytes(block)),
              Bytes(begin, begin + static_cast<std::ptrdiff_t>(opened->BlockBytes(block))));
  }
}

std::string NameOf(ZeroValueInstructionSet set) {
  return std::string(ZeroValueInstructionSetName(set));
}

class RoundTrip : public testing::TestWithParam<ZeroValueInstructionSet> {
 protected:
  template <typename Function>
  void ForEachFormat(int threads, Function function) {
    for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
      for (const auto mode : {ZeroValueMode::kPacked, ZeroValueMode::kPlain}) {
        for (const bool is_streaming : {false, true}) {
          function(*Codec({word, mode, threads, GetParam(), is_streaming}),
                   static_cast<std::size_t>(word));
        }
      }
    }
  }
};

TEST_P(RoundTrip, OfAnyDensityAndValues) {
  std::mt19937_64 random(7);
  ForEachFormat(1, [&random](const ZeroValueCodec& codec, std::size_t word_bytes) {
    for (const Values values : kAllValues) {
      for (const double density : {0.0, 0.0005, 0.02, 0.25, 0.5, 0.75, 0.97, 1.0}) {
        SCOPED_TRACE(testing::Message() << "density " << density);
        ExpectRoundTrip(codec, RandomInput(8192 + 8192, word_bytes, density, values, random),
                        false);
        // A full last block with an incomplete last word.
        ExpectRoundTrip(codec, RandomInput(8192 + 8191, word_bytes, density, values, random),
                        false);
      }
    }
  });
}

// Words that differ only in their low bits, so that every width occurs with every count modulo 64.
TEST_P(RoundTrip, OfEveryWidth) {
  std::mt19937_64 random(8);
  ForEachFormat(1, [&random](const ZeroValueCodec& codec, std::size_t word_bytes) {
    for (std::size_t bits = 0; bits <= 8 * word_bytes; ++bits) {
      Bytes input(8192);
      const std::size_t count = 1 + random() % (8192 / word_bytes);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t low = random() & ((std::uint64_t{1} << bits) - 1);
        const std::uint64_t word = bits == 8 * word_bytes ? low : low | std::uint64_t{1} << bits;
        std::memcpy(&input[i * word_bytes], &word, word_bytes);
      }
      ExpectRoundTrip(codec, input, false);
    }
  });
}

TEST_P(RoundTrip, OfAnySizeAtAnyAddress) {
  std::mt19937_64 random(9);
  ForEachFormat(1, [&random](const ZeroValueCodec& codec, std::size_t word_bytes) {
    for (const std::size_t bytes :
         {0,   1,   2,   3,    4,    5,    7,    63,   64,   65,   255,  256,  257,
          319, 320, 321, 1000, 4095, 8188, 8191, 8192, 8193, 8195, 8196, 20001}) {
      for (const bool at_begin : {false, true}) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes");
        ExpectRoundTrip(codec, RandomInput(bytes, word_bytes, 0.1, Values::kRelu, random),
                        at_begin);
      }
    }
  });
}

TEST_P(RoundTrip, OnAnyNumberOfThreads) {
  std::mt19937_64 random(10);
  // More groups of blocks than threads, and a short last block.
  constexpr std::size_t kBytes = 4 * 131072 + 3 * 8192 + 77;
  for (const int threads : {2, 3, 8}) {
    ForEachFormat(threads, [&random](const ZeroValueCodec& codec, std::size_t word_bytes) {
      ExpectRoundTrip(codec, RandomInput(kBytes, word_bytes, 0.5, Values::kRelu, random), false);
      ExpectRoundTrip(codec, RandomInput(1, word_bytes, 1, Values::kRelu, random), false);
      ExpectRoundTrip(codec, {}, false);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, RoundTrip,
                         testing::ValuesIn(ZeroValueInstructionSets()), [](const auto& param) {
                           std::string name = NameOf(param.param);
                           std::erase(name, '-');
                           return name;
                         });

// Expected bytes at given offsets for the examples on the format's page; all others are 0.
struct ExpectedBytes {
  std::size_t at;
  const char* hex;
};

Bytes FromExpectedBytes(std::size_t bytes, const std::vector<ExpectedBytes>& parts) {
  Bytes stream(bytes);
  for (const ExpectedBytes& part : parts) {
    for (std::size_t i = 0; part.hex[2 * i] != 0; ++i) {
      const std::string digits(part.hex + 2 * i, 2);
      stream[part.at + i] = static_cast<std::byte>(std::stoi(digits, nullptr, 16));
    }
  }
  return stream;
}

Bytes CompressedBy(const Bytes& input, ZeroValueWord word, ZeroValueMode mode) {
  Bytes stream(ZeroValueBound(input.size()));
  const auto bytes = Codec({.word = word, .mode = mode})->Compress(input, absl::MakeSpan(stream));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  stream.resize(bytes.value_or(0));
  return stream;
}

Bytes Example() {
  Bytes input(1024);
  const float one = 1.0F;
  const float one_and_a_half = 1.5F;
  std::memcpy(&input[12], &one, 4);
  std::memcpy(&input[400], &one_and_a_half, 4);
  return input;
}

TEST(Golden, Packed) {
  EXPECT_EQ(CompressedBy(Example(), ZeroValueWord::k32Bits, ZeroValueMode::kPacked),
            FromExpectedBytes(448, {{0, "8974707a760d0a1a010004000020000000040000"},
                                    {24, "4001"},
                                    {32, "a0368ad7dd0b54e2"},
                                    {60, "2cb5c4ed02001700"},
                                    {68, "0000803f"},
                                    {128, "08"},
                                    {140, "10"},
                                    {384, "0000000000004000"}}));
}

TEST(Golden, Plain) {
  EXPECT_EQ(CompressedBy(Example(), ZeroValueWord::k32Bits, ZeroValueMode::kPlain),
            FromExpectedBytes(448, {{0, "8974707a760d0a1a010004010020000000040000"},
                                    {24, "4001"},
                                    {32, "c159683e5b6a36af"},
                                    {60, "c4beb44402002000"},
                                    {128, "08"},
                                    {140, "10"},
                                    {384, "0000803f0000c03f"}}));
}

TEST(Golden, Empty) {
  EXPECT_EQ(CompressedBy({}, ZeroValueWord::k32Bits, ZeroValueMode::kPacked),
            FromExpectedBytes(64, {{0, "8974707a760d0a1a0100040000200000"},
                                   {32, "99f7d2cb10620bcf"},
                                   {60, "ca3cf45c"}}));
}

TEST(Golden, RawByte) {
  EXPECT_EQ(CompressedBy({std::byte{7}}, ZeroValueWord::k32Bits, ZeroValueMode::kPacked),
            FromExpectedBytes(192, {{0, "8974707a760d0a1a010004000020000001"},
                                    {24, "40"},
                                    {32, "caa0410acacfb508"},
                                    {60, "e517d62101002002"},
                                    {128, "07"}}));
}

// A block without mask: 2,047 times 7, after a first word 8.
TEST(Golden, BlockWithoutZeros) {
  Bytes input(8192);
  for (std::size_t at = 0; at < input.size(); at += 4) input[at] = std::byte{7};
  input[0] = std::byte{8};
  EXPECT_EQ(CompressedBy(input, ZeroValueWord::k32Bits, ZeroValueMode::kPacked),
            FromExpectedBytes(384, {{0, "8974707a760d0a1a010004000020000000200000"},
                                    {24, "0001"},
                                    {32, "e1e9b368767afa33"},
                                    {60, "c23b27020008010007000000"},
                                    {128, "01"}}));
}

// Two blocks. The first is rotated; the second has an odd number of bytes and words of 0 bits.
TEST(Golden, RotatedWordsOf16Bits) {
  Bytes input(8793);
  const auto put = [&input](std::size_t index, std::uint16_t word) {
    std::memcpy(&input[2 * index], &word, 2);
  };
  put(0, 0x3f80);
  put(1, 0xbf80);
  put(40, 0xbfc0);
  put(299, 0x4000);
  input.back() = std::byte{1};
  EXPECT_EQ(CompressedBy(input, ZeroValueWord::k16Bits, ZeroValueMode::kPacked),
            FromExpectedBytes(1216, {{0, "8974707a760d0a1a01000200002000005922"},
                                     {24, "4004"},
                                     {32, "70b4a26c0b23cb81"},
                                     {60, "532f57ca04000901007f00000100000001"},
                                     {128, "03"},
                                     {133, "01"},
                                     {165, "08"},
                                     {642, "010081000001"},
                                     {741, "10"}}));
}

TEST(Sizes, AreWithinTheirBounds) {
  std::mt19937_64 random(11);
  constexpr std::size_t kBytes = 1 << 20;
  const Bytes noise = RandomInput(kBytes, 4, 1, Values::kAnyBits, random);
  for (const auto word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    for (const auto mode : {ZeroValueMode::kPacked, ZeroValueMode::kPlain}) {
      EXPECT_LE(CompressedBy(noise, word, mode).size(), 1.001 * kBytes + 192);
      EXPECT_LE(CompressedBy(Bytes(kBytes), word, mode).size(), 0.001 * kBytes + 128);
    }
  }
  for (std::size_t bytes = 0; bytes < 30000; ++bytes) {
    ASSERT_LE(ZeroValueBound(bytes), 1.001 * static_cast<double>(bytes) + 192);
  }
  EXPECT_LE(ZeroValueBound(kMaxZeroValueInputBytes), 1.001 * kMaxZeroValueInputBytes);
}

TEST(Sizes, OfReluDataAreWhatPackingPromises) {
  std::mt19937_64 random(12);
  constexpr double kBytes = 1 << 20;
  const auto ratio = [&random](double density) {
    const Bytes input = RandomInput(1 << 20, 4, density, Values::kRelu, random);
    const auto size = CompressedBy(input, ZeroValueWord::k32Bits, ZeroValueMode::kPacked).size();
    return static_cast<double>(size) / kBytes;
  };
  EXPECT_LE(ratio(0.25), 0.26);
  EXPECT_LE(ratio(0.5), 0.47);
  EXPECT_LE(ratio(1), 0.86);
}

}  // namespace
}  // namespace tidepool
