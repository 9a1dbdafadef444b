// SPDX-License-Identifier: Apache-2.0
// Tests of the pickle machine: it reads the output of Python's picklers and runs nothing else, and
// its memory and time are bounded by the size of the file.
#include "lib/trace/pytorch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/trace/pytorch/pickle_opcodes.h"
#include "lib/trace/pytorch/pickle_writer.h"
#include "tests/support/pickled.h"

namespace tidepool::pytorch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::LittleEndian;
using testing::Pickled;
using ::testing::StartsWith;
using PickleKind = PickleValue::Kind;

using namespace std::string_literals;

constexpr int kDeep = 100'000;

absl::StatusOr<Pickle> ParsePickle(std::string_view bytes) {
  return Pickle::Parse(*io::FromMemory(bytes));
}

// Returns the contents of a pickle as JSON. Recursive, so not for deep pickles.
json ToJson(const Pickle& pickle, PickleValue value) {
  std::int64_t integer = 0;
  std::uint64_t large = 0;
  std::vector<PickleValue> keys;
  std::vector<PickleValue> elements;
  const auto add = [&](absl::Span<const PickleValue> part) {
    elements.insert(elements.end(), part.begin(), part.end());
    return true;
  };
  if (value.IsSequence()) pickle.VisitElements(value, add);
  if (value.IsDict()) {
    pickle.VisitEntries(
        value, [&](absl::Span<const PickleValue> of, absl::Span<const PickleValue> values) {
          keys.insert(keys.end(), of.begin(), of.end());
          return add(values);
        });
    EXPECT_EQ(keys.size(), elements.size());
  }
  if (value.IsSequence() || value.IsDict()) {
    EXPECT_EQ(elements.size(), pickle.Size(value));
  }
  json container = json::array();
  switch (value.kind()) {
    case PickleKind::kNone:
      return nullptr;
    case PickleKind::kBool:
      return value.payload() == 1;
    case PickleKind::kInt:
    case PickleKind::kLargeInt:
      EXPECT_TRUE(pickle.AsInteger(value, &integer));
      return integer;
    case PickleKind::kUnsigned:
      EXPECT_FALSE(pickle.AsInteger(value, &integer));
      EXPECT_TRUE(pickle.AsUnsigned(value, &large));
      return large;
    case PickleKind::kFloat:
      return pickle.Float(value);
    case PickleKind::kText:
    case PickleKind::kBytes:
      return std::string(pickle.Text(value));
    case PickleKind::kList:
    case PickleKind::kTuple:
      for (const PickleValue element : elements) container.push_back(ToJson(pickle, element));
      return container;
    case PickleKind::kDict:
      container = json::object();
      for (std::size_t i = 0; i < keys.size(); ++i)
        container[std::string(pickle.Text(keys[i]))] = ToJson(pickle, elements[i]);
      return container;
  }
  return nullptr;
}

// Returns the contents of a pickle of protocol 2 with these opcodes between PROTO and STOP.
json ReadPickle(const std::string& opcodes) {
  const std::string bytes = "\x80\x02" + opcodes + ".";
  const auto pickle = ParsePickle(bytes);
  EXPECT_TRUE(pickle.ok()) << pickle.status();
  return pickle.ok() ? ToJson(*pickle, pickle->root()) : json("refused");
}

std::string PickleErrorOf(const std::string& bytes) {
  const auto pickle = ParsePickle(bytes);
  EXPECT_FALSE(pickle.ok());
  const std::string message(pickle.status().message());
  return message;
}

std::string ErrorIn(const std::string& opcodes) {
  return PickleErrorOf("\x80\x02" + opcodes + ".");
}

TEST(Pickle, ReadsIntegers) {
  EXPECT_EQ(ReadPickle("K\xff"), 255);
  EXPECT_EQ(ReadPickle("M\xff\xff"), 65535);
  EXPECT_EQ(ReadPickle("J\xff\xff\xff\xff"), -1);
  EXPECT_EQ(ReadPickle(std::string("J\x00\x00\x00\x80", 5)), INT32_MIN);
  EXPECT_EQ(ReadPickle(std::string("\x8a\x00", 2)), 0);
  EXPECT_EQ(ReadPickle("\x8a\x01\x80"), -128);
  EXPECT_EQ(ReadPickle(std::string("\x8a\x02\x80\x00", 4)), 128);
  EXPECT_EQ(ReadPickle("\x8a\x09" + LittleEndian(7, 8) + LittleEndian(0, 1)), 7);
  EXPECT_EQ(ReadPickle("\x8a\x09" + LittleEndian(UINT64_MAX, 8) + "\xff"), -1);
  EXPECT_EQ(ReadPickle("\x8b" + LittleEndian(3, 4) + "\x01\x02\x03"), 0x030201);
  EXPECT_EQ(ReadPickle("\x8a\x09" + LittleEndian(UINT64_MAX, 8) + LittleEndian(0, 1)), UINT64_MAX);
  EXPECT_EQ(ReadPickle("I123\n"), 123);
  EXPECT_EQ(ReadPickle("I01\n"), true);
  EXPECT_EQ(ReadPickle("I00\n"), false);
  EXPECT_EQ(ReadPickle("L-9223372036854775808L\n"), INT64_MIN);
  EXPECT_THAT(ErrorIn("\x8a\x09" + LittleEndian(0, 8) + "\x01"), HasSubstr("LONG1"));
  EXPECT_THAT(ErrorIn("\x8a\x0a" + LittleEndian(0, 8) + "\x01\x01"), HasSubstr("64 bits"));
  EXPECT_THAT(ErrorIn("I1x\n"), HasSubstr("INT (0x49): '1x'"));
  EXPECT_THAT(ErrorIn("L99999999999999999999L\n"), HasSubstr("64 bits"));
}

// Opcodes with 16 bytes or more after them are read in another way.
TEST(Pickle, ReadsTheSameBeforeOtherBytes) {
  const std::string padding(16, 'N');
  const std::string all[] = {"K\xff",
                             "M\xff\xff",
                             "J\xff\xff\xff\xff",
                             "J\0\0\0\x80"s,
                             "\x8a\0"s,
                             "\x8a\1\x80",
                             "\x8a\2\x80\0"s,
                             "\x8a\x08" + LittleEndian(7, 8),
                             "\x8a\x09" + LittleEndian(UINT64_MAX, 8) + "\0"s,
                             "K\7q\0h\0"s,
                             "K\7q\1h\1",
                             "K\7q\xffh\xff",
                             "K\7r\1\0\0\0j\1\0\0\0"s};
  for (const std::string& opcodes : all) {
    const auto padded = ParsePickle("\x80\x02" + opcodes + "." + padding);
    if (padded.ok()) {
      EXPECT_EQ(ToJson(*padded, padded->root()), ReadPickle(opcodes)) << opcodes;
    } else {
      EXPECT_EQ(PickleErrorOf("\x80\x02" + opcodes + "." + padding), ErrorIn(opcodes)) << opcodes;
    }
  }
  EXPECT_EQ(ErrorIn("h\1"), PickleErrorOf("\x80\x02h\1." + padding));
  EXPECT_EQ(ErrorIn("K\1q\1h\0"s), PickleErrorOf("\x80\x02K\1q\1h\0."s + padding));
  EXPECT_EQ(ErrorIn("j\0\0\0\0"s), PickleErrorOf("\x80\x02j\0\0\0\0."s + padding));
}

TEST(Pickle, ReadsIntegersAtTheEdgesOfValues) {
  constexpr std::int64_t kEdge = std::int64_t{1} << 27;
  const std::int64_t integers[] = {-kEdge - 1, -kEdge,    -kEdge + 1, kEdge - 1, kEdge,
                                   kEdge + 1,  INT64_MIN, INT64_MAX,  2 * kEdge, 16 * kEdge};
  for (const std::int64_t integer : integers) {
    const std::string opcode = "\x8a\x08" + LittleEndian(static_cast<std::uint64_t>(integer), 8);
    EXPECT_EQ(ReadPickle(opcode), integer);
    EXPECT_EQ(ReadPickle("(" + opcode + opcode + "l"), json({integer, integer}));
  }
}

TEST(Pickle, KeepsEqualIntegersOnce) {
  const std::string address = "\x8a\x06" + LittleEndian(0x7f0000000000, 6);
  const auto pickle = ParsePickle("\x80\x02(" + address + "J\0\0\0\x70"s + address + "l.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  pickle->VisitElements(pickle->root(), [](absl::Span<const PickleValue> elements) {
    EXPECT_EQ(elements[0], elements[2]);
    EXPECT_NE(elements[0], elements[1]);
    return true;
  });
}

TEST(Pickle, ReadsWhatItsWriterWrites) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::ostringstream bytes;
    PickleWriter writer(bytes);
    PickleWriter::List list = writer.BeginList();
    json expected = json::array();
    for (int i = 0; i < round * 13; ++i) {
      writer.NextElement(list);
      const auto integer =
          static_cast<std::int64_t>(random() >> random() % 64) * (random() % 2 == 0 ? 1 : -1);
      const std::string text = absl::StrCat("t", random() % 300);
      switch (random() % 6) {
        case 0:
          writer.Integer(integer);
          expected.push_back(integer);
          break;
        case 1:
          writer.Unsigned(static_cast<std::uint64_t>(integer));
          expected.push_back(static_cast<std::uint64_t>(integer));
          break;
        case 2:
          writer.Text(text);
          expected.push_back(text);
          break;
        case 3:
          writer.Float(std::ldexp(static_cast<double>(integer), -20));
          expected.push_back(std::ldexp(static_cast<double>(integer), -20));
          break;
        case 4:
          writer.BeginDict();
          writer.Text(text);
          writer.Bool(i % 2 == 0);
          writer.EndDict();
          expected.push_back({{text, i % 2 == 0}});
          break;
        default:
          writer.EmptyList();
          expected.push_back(json::array());
      }
    }
    writer.EndList(list);
    writer.End();
    const std::string written = bytes.str();
    const auto pickle = ParsePickle(written);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    ASSERT_EQ(ToJson(*pickle, pickle->root()), expected);
  }
}

TEST(Pickle, WriterReplacesWhatIsNoUnicode) {
  std::ostringstream bytes;
  PickleWriter writer(bytes);
  writer.Text("a\xff\xc3\xa4\xed\xa0\x80\xf0\x9f\x98\x80\xc0");
  writer.End();
  const std::string written = bytes.str();
  const auto pickle = ParsePickle(written);
  ASSERT_TRUE(pickle.ok());
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(pickle->Text(pickle->root()),
            "a" + bad + "\xc3\xa4" + bad + bad + bad + "\xf0\x9f\x98\x80" + bad);
}

TEST(Pickle, ReadsTextsAndBytes) {
  EXPECT_EQ(ReadPickle("X" + LittleEndian(3, 4) + "abc"), "abc");
  EXPECT_EQ(ReadPickle("\x8c\x02xy"), "xy");
  EXPECT_EQ(ReadPickle("\x8d" + LittleEndian(1, 8) + "z"), "z");
  EXPECT_EQ(ReadPickle("U\x01s"), "s");
  EXPECT_EQ(ReadPickle("T" + LittleEndian(1, 4) + "s"), "s");
  EXPECT_EQ(ReadPickle("C\x01s"), "s");
  EXPECT_EQ(ReadPickle("B" + LittleEndian(1, 4) + "s"), "s");
  EXPECT_EQ(ReadPickle("\x8e" + LittleEndian(1, 8) + "s"), "s");
  EXPECT_EQ(ReadPickle("F1.5\n"), 1.5);
  EXPECT_THAT(ErrorIn("Fx\n"), HasSubstr("FLOAT"));
}

TEST(Pickle, ReadsContainers) {
  EXPECT_EQ(ReadPickle("N"), nullptr);
  EXPECT_EQ(ReadPickle("]K\1aK\2a"), json({1, 2}));
  EXPECT_EQ(ReadPickle("](K\1K\2e"), json({1, 2}));
  EXPECT_EQ(ReadPickle("(K\1K\2l"), json({1, 2}));
  EXPECT_EQ(ReadPickle(")"), json::array());
  EXPECT_EQ(ReadPickle("K\1\x85"), json({1}));
  EXPECT_EQ(ReadPickle("K\1K\2\x86"), json({1, 2}));
  EXPECT_EQ(ReadPickle("K\1K\2K\3\x87"), json({1, 2, 3}));
  EXPECT_EQ(ReadPickle("(K\1K\2K\3K\4t"), json({1, 2, 3, 4}));
  EXPECT_EQ(ReadPickle("}U\1aK\1s"), json({{"a", 1}}));
  EXPECT_EQ(ReadPickle("}(U\1aK\1U\1bK\2u"), json({{"a", 1}, {"b", 2}}));
  EXPECT_EQ(ReadPickle("(U\1aK\1d"), json({{"a", 1}}));
  // Two lists filled alternately, so each has several parts.
  EXPECT_EQ(ReadPickle("]q\1]q\2K\1a0h\1K\2a0h\2K\3a0h\1h\2a"), json::parse("[2, [1, 3]]"));
  // POP, POP_MARK and DUP.
  EXPECT_EQ(ReadPickle("K\1K\2"
                       "0"),
            1);
  EXPECT_EQ(ReadPickle("K\1(K\2K\3"
                       "1"),
            1);
  EXPECT_EQ(ReadPickle("K\1(0"), 1);
  EXPECT_EQ(ReadPickle("K\1"
                       "2\x86"),
            json({1, 1}));
}

TEST(Pickle, KeepsAMemo) {
  EXPECT_EQ(ReadPickle("U\1aq\2" + std::string("0U\1bq\3") + "0h\3"), "b");
  EXPECT_EQ(ReadPickle("U\1a\x94"
                       "0h" +
                       std::string(1, '\0')),
            "a");
  EXPECT_EQ(ReadPickle("U\1ap3\n0g3\n"), "a");
  EXPECT_EQ(ReadPickle("U\1ar" + LittleEndian(5, 4) + "0j" + LittleEndian(5, 4)), "a");
  EXPECT_THAT(ErrorIn("h\3"), HasSubstr("BINGET (0x68): unknown memo number 3"));
  EXPECT_THAT(ErrorIn("j" + LittleEndian(UINT32_MAX, 4)), HasSubstr("LONG_BINGET"));
  EXPECT_THAT(ErrorIn("Nr" + LittleEndian(UINT32_MAX, 4)), HasSubstr("LONG_BINPUT"));
  EXPECT_THAT(ErrorIn("Np-1\n"), HasSubstr("PUT"));
  EXPECT_THAT(ErrorIn("Np9999999999\n"), HasSubstr("PUT"));
  EXPECT_THAT(ErrorIn("\x94N"), HasSubstr("the stack is empty"));
}

TEST(Pickle, TakesProtocols2To5AndFrames) {
  for (const char protocol : {2, 3, 4, 5}) {
    const std::string bytes = std::string("\x80") + protocol + "\x95" + LittleEndian(2, 8) + "K\1.";
    const auto pickle = ParsePickle(bytes);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    EXPECT_EQ(ToJson(*pickle, pickle->root()), 1);
  }
  EXPECT_THAT(PickleErrorOf("\x80\6N."), HasSubstr("pickle protocol 6, expected 2 to 5"));
  EXPECT_THAT(PickleErrorOf("\x80\1N."), HasSubstr("pickle protocol 1, expected 2 to 5"));
  EXPECT_THAT(PickleErrorOf("N."), HasSubstr("PROTO"));
  EXPECT_THAT(PickleErrorOf(""), HasSubstr("PROTO"));
}

TEST(Pickle, RunsNothing) {
  // All opcodes that build or call something or are not plain data.
  const std::string refused = "cRbiop\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x96\x97\x98PQSV\xff\x01";
  for (const char code : refused) {
    if (code == 'p') continue;
    const auto byte = static_cast<std::uint8_t>(code);
    const std::string message = ErrorIn("NN" + std::string(1, code));
    EXPECT_THAT(message, StartsWith("byte 4: ")) << message;
    EXPECT_THAT(message, HasSubstr(absl::StrCat("0x", absl::Hex(byte, absl::kZeroPad2))));
    const char* name = OpcodeName(byte);
    EXPECT_THAT(message, HasSubstr(name == nullptr ? "unknown opcode" : name));
  }
  EXPECT_THAT(ErrorIn("cos\nsystem\n(U\1xtR"), StartsWith("byte 2: opcode GLOBAL (0x63)"));
}

TEST(Pickle, KnowsEveryOpcodeAsItsOwnOrRefusesIt) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes = std::string("\x80\x02((NN]q\1}q\2NN") + static_cast<char>(byte);
    const auto pickle = ParsePickle(bytes);
    if (pickle.ok()) {
      EXPECT_EQ(byte, '.');
    } else {
    }
  }
}

TEST(Pickle, RefusesWhatIsCutOffAnywhere) {
  const std::string good = "\x80\2](K\1M\2\1J\1\2\3\4X" + LittleEndian(2, 4) +
                           "bc\x8a\3\1\2\3G12345678}(U\1aK\1uq\1h\1e.";
  ASSERT_TRUE(ParsePickle(good).ok());
  for (std::size_t size = 0; size < good.size(); ++size) PickleErrorOf(good.substr(0, size));
}

TEST(Pickle, RefusesLengthsBeyondTheFile) {
  EXPECT_THAT(ErrorIn("X" + LittleEndian(UINT32_MAX, 4) + "a"), HasSubstr("BINUNICODE"));
  EXPECT_THAT(
      ErrorIn("X" + LittleEndian(100, 4) + "a"),
      HasSubstr("BINUNICODE (0x58): the file is cut off, expected 98 more bytes of the argument"));
  EXPECT_THAT(ErrorIn("\x8d" + LittleEndian(UINT64_MAX, 8) + "a"), HasSubstr("BINUNICODE8"));
  EXPECT_THAT(ErrorIn("\x8e" + LittleEndian(std::uint64_t{1} << 62, 8)), HasSubstr("BINBYTES8"));
  EXPECT_THAT(ErrorIn("\x8b" + LittleEndian(UINT32_MAX, 4) + "a"), HasSubstr("LONG4"));
  EXPECT_THAT(ErrorIn("\x8b" + LittleEndian(1 << 30, 4) + std::string(8, '\0')),
              HasSubstr("LONG4"));
  EXPECT_THAT(ErrorIn("\x95" + LittleEndian(std::uint64_t{1} << 40, 8)), HasSubstr("FRAME"));
  EXPECT_THAT(ErrorIn("I" + std::string(1 << 17, '1') + "\n"),
              HasSubstr("INT (0x49): a line of more than 64 KiB"));
}

// Lists with equal elements share them until one of them gets more.
TEST(Pickle, KeepsElementsOfListsApartThatShareThem) {
  const auto pickle = ParsePickle(
      "\x80\x02(](NK\1K\2K\3eq\0](NK\1K\2K\3eq\1](NK\1K\2K\3eq\2h\1"
      "K\4a0h\0K\5a0(NK\1K\2K\3tl."s);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(ToJson(*pickle, pickle->root()),
            json::parse("[[null,1,2,3,5],[null,1,2,3,4],[null,1,2,3],[null,1,2,3]]"));
  EXPECT_LE(pickle->elements(), 4 + 2 + 4);
}

// Events have the same keys, and many have the same short stack.
TEST(Pickle, KeepsEqualKeysAndShortListsOnce) {
  constexpr int kEvents = 100;
  std::string opcodes = "(";
  for (int i = 0; i < kEvents; ++i)
    opcodes += "}(K\x07K" + std::string(1, static_cast<char>(i)) + "K\x08](K\x09" + "eu";
  const auto pickle = ParsePickle("\x80\x02" + opcodes + "l.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->elements(), 2 + 1 + 2 * kEvents + kEvents);
}

// Stacks of a training step come again in each step. A few of them may share a place with two
// others.
TEST(Pickle, KeepsManyStacksOnceThoughTheyAlternate) {
  constexpr int kStacks = 2000;
  constexpr int kSteps = 10;
  std::string opcodes = "(";
  for (int i = 0; i < kStacks * kSteps; ++i) {
    const int stack = i % kStacks;
    opcodes += "](K\1K\2M" +
               std::string{static_cast<char>(stack & 0xFF), static_cast<char>(stack >> 8)} + "e";
  }
  const auto pickle = ParsePickle("\x80\x02" + opcodes + "l.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_LE(pickle->elements(), kStacks * kSteps + 3 * kStacks * 1.2);
}

// Containers that are filled in steps, with others between, have several parts.
TEST(Pickle, FillsContainersInSteps) {
  constexpr int kContainers = 6;
  const std::string get = "h";
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::string opcodes = "(";
    std::vector<json> expected;
    for (char i = 0; i < kContainers; ++i) {
      opcodes += (i % 2 == 0 ? "]q" : "}q") + std::string(1, i);
      expected.push_back(i % 2 == 0 ? json::array() : json::object());
    }
    opcodes += "t";
    for (unsigned step = 0; step < seed; ++step) {
      const auto container = static_cast<char>(random() % kContainers);
      opcodes += get + container + "(";
      for (unsigned more = random() % 4; more > 0; --more) {
        const auto number = static_cast<char>(random() % 100);
        const std::string key = absl::StrCat("k", step, "_", more);
        json& filled = expected[static_cast<std::size_t>(container)];
        if (filled.is_object()) {
          opcodes += "U" + std::string(1, static_cast<char>(key.size())) + key;
          filled[key] = number;
        } else {
          filled.push_back(number);
        }
        opcodes += "K" + std::string(1, number);
      }
      opcodes += container % 2 == 0 ? "e0" : "u0";
    }
    ASSERT_EQ(ReadPickle(opcodes), json(expected)) << seed;
  }
}

// More lists than the table of elements that may be shared has places.
TEST(Pickle, KeepsTheElementsOfManyListsOfOneSize) {
  constexpr int kLists = 40'000;
  const auto bytes_of = [](int number) {
    return std::string{static_cast<char>(number & 0xFF), static_cast<char>(number >> 8)};
  };
  std::string opcodes = "\x80\x02](";
  json expected = json::array();
  for (int i = 0; i < kLists; ++i) {
    opcodes += "](K\1K\2K\3M" + bytes_of(i) + "e";
    expected.push_back({1, 2, 3, i});
  }
  const auto pickle = ParsePickle(opcodes + "e.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_TRUE(ToJson(*pickle, pickle->root()) == expected);
}

TEST(Pickle, NumbersContents) {
  const auto pickle = ParsePickle("\x80\x02(](NNNNe](NNNNe](NNNN2e]]l."s);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  std::vector<std::uint64_t> contents;
  pickle->VisitElements(pickle->root(), [&](absl::Span<const PickleValue> lists) {
    for (const PickleValue list : lists) contents.push_back(pickle->Contents(list));
    return true;
  });
  ASSERT_EQ(contents.size(), 5);
  EXPECT_EQ(contents[0], contents[1]);
  EXPECT_EQ(std::set(contents.begin(), contents.end()).size(), 4);
}

// Pickle of protocol 2: a beginning, then `mebibytes` of repeated opcodes.
class Bomb final : public io::ByteSource {
 public:
  Bomb(std::string beginning, std::string repeated, std::uint64_t mebibytes)
      : beginning_("\x80\x02" + std::move(beginning)),
        repeated_(std::move(repeated)),
        rest_(mebibytes << 20) {
    const std::size_t period = repeated_.size();
    while (repeated_.size() < period << 16) repeated_ += repeated_;
  }

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    if (!beginning_.empty()) {
      const std::size_t count = beginning_.copy(buffer, size);
      beginning_.erase(0, count);
      return count;
    }
    const std::size_t most = std::min<std::uint64_t>(size, rest_);
    const std::size_t count = repeated_.copy(buffer, most, at_);
    at_ = (at_ + count) % repeated_.size();
    rest_ -= count;
    given_ += count;
    return count;
  }
  // Reports the best compression that gzip reaches.
  std::uint64_t file_bytes() const override { return given_ / 1000; }
  std::uint64_t given() const { return given_; }

 private:
  std::string beginning_;
  std::string repeated_;
  std::uint64_t rest_;
  std::size_t at_ = 0;
  std::uint64_t given_ = 0;
};

// Memory is limited by the size of the file even if gzip expands it a thousandfold.
TEST(Pickle, KeepsNoMoreThanItsFileIsWorth) {
  const std::string long_text = "\x8d" + LittleEndian(std::uint64_t{3} << 30, 8);
  const std::vector<std::pair<std::string, std::string>> bombs = {
      {"N", "\x85"},       // tuples in tuples
      {"", "]0"},          // dropped lists
      {"", "](NNNNe0"},    // dropped lists that share their elements
      {"", "G123456780"},  // dropped numbers
      {"]", "(NNNNNNe"},   // a list of many values
      {"]", "(N222222e"},  // a list of memo values
      {"]", "U\x01xa"},    // a list of texts
      {long_text, "a"},
  };
  for (const auto& [beginning, repeated] : bombs) {
    Bomb bomb(beginning, repeated, 4000);
    const auto pickle = Pickle::Parse(bomb);
    ASSERT_FALSE(pickle.ok());
    EXPECT_THAT(std::string(pickle.status().message()),
                HasSubstr("bytes of a file, more than any snapshot has"));
    EXPECT_LE(bomb.given(), 128 << 20) << repeated;
  }
}

TEST(Pickle, TakesWhatItsSizeIsWorthHoweverItIsCompressed) {
  Bomb numbers("", "N0", 100);  // no value is kept
  EXPECT_THAT(std::string(Pickle::Parse(numbers).status().message()), HasSubstr("STOP"));
  Bomb padded("N.", "\xff", 4000);
  EXPECT_TRUE(Pickle::Parse(padded).ok());
  EXPECT_LE(padded.given(), 1 << 20);
}

TEST(Pickle, ReadsWhatLiesAcrossPieces) {
  // Shifts the opcodes so that each of them is split by the end of a 64 KiB buffer once.
  const std::string opcodes = "K\1M\2\1J\1\2\3\4X" + LittleEndian(3, 4) + "bcd\x8a\x09" +
                              LittleEndian(UINT64_MAX, 8) + "\xffG12345678I123\nF1.5\n";
  const json expected = ReadPickle("(" + opcodes + "l");
  for (std::size_t before = 0; before <= opcodes.size(); ++before) {
    const std::size_t fill = (1 << 16) - 4 - 5 - before;
    const json got =
        ReadPickle("(X" + LittleEndian(fill, 4) + std::string(fill, 'x') + opcodes + "l");
    ASSERT_EQ(got.size(), expected.size() + 1) << before;
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got[i + 1], expected[i]) << before;
  }
}

TEST(Pickle, RefusesWhatDoesNotFitTogether) {
  EXPECT_THAT(ErrorIn(""), HasSubstr("STOP"));
  EXPECT_THAT(ErrorIn("0"), HasSubstr("POP"));
  EXPECT_THAT(ErrorIn("1"), HasSubstr("no mark"));
  EXPECT_THAT(ErrorIn("a"), HasSubstr("APPEND"));
  EXPECT_THAT(ErrorIn("Na"), HasSubstr("nothing lies below"));
  EXPECT_THAT(ErrorIn("NNa"), HasSubstr("None lies below the elements to add, expected a list"));
  EXPECT_THAT(ErrorIn("](Na"), HasSubstr("nothing lies below"));
  EXPECT_THAT(ErrorIn("]Ne"), HasSubstr("no mark"));
  EXPECT_THAT(ErrorIn("}(Nu"), HasSubstr("a key without a value"));
  EXPECT_THAT(ErrorIn("](NNu"), HasSubstr("a list lies below"));
  EXPECT_THAT(ErrorIn("(Nd"), HasSubstr("a key without a value"));
  EXPECT_THAT(ErrorIn("}Ns"), HasSubstr("SETITEM"));
  EXPECT_THAT(ErrorIn("N\x86"), HasSubstr("TUPLE2"));
  EXPECT_THAT(ErrorIn("N(\x85"), HasSubstr("TUPLE1"));
  EXPECT_THAT(ErrorIn("(e"), HasSubstr("nothing lies below"));
}

TEST(Pickle, DoesNotPileUpWhatIsNotCollected) {
  const std::size_t many = (std::size_t{1} << 24) + 1;
  EXPECT_THAT(PickleErrorOf("\x80\2" + std::string(many, 'N') + "."),
              HasSubstr("too many values on the stack"));
  EXPECT_THAT(PickleErrorOf("\x80\2" + std::string(many, '(') + "."),
              HasSubstr("too many marks on the stack"));
}

TEST(Pickle, NestsAsDeepAsAnyFile) {
  // Lists in lists, tuples in tuples, and dicts in dicts; reading them must not recurse.
  std::string lists(kDeep, ']');
  lists.append(kDeep - 1, 'a');
  EXPECT_TRUE(ParsePickle("\x80\2" + lists + ".").ok());
  std::string tuples = ")";
  tuples.append(kDeep, '\x85');
  EXPECT_TRUE(ParsePickle("\x80\2" + tuples + ".").ok());
  std::string dicts;
  for (int i = 0; i < kDeep; ++i) dicts += "}K\1";
  dicts += "N";
  dicts.append(kDeep, 's');
  EXPECT_TRUE(ParsePickle("\x80\2" + dicts + ".").ok());
  EXPECT_TRUE(ParsePickle("\x80\2" + std::string(kDeep, '(') + "N.").ok());
}

TEST(Pickle, TakesCircles) {
  const std::string bytes = "\x80\2]q\1h\1a.";
  const auto pickle = ParsePickle(bytes);
  ASSERT_TRUE(pickle.ok());
  pickle->VisitElements(pickle->root(), [&](absl::Span<const PickleValue> elements) {
    EXPECT_EQ(elements.size(), 1);
    EXPECT_EQ(elements[0], pickle->root());
    return true;
  });
}

// Returns the dicts of a list: for each its keys and values in order, as they are in the file.
json DictsOf(const Pickle& pickle) {
  json dicts = json::array();
  pickle.VisitElements(pickle.root(), [&](absl::Span<const PickleValue> elements) {
    for (const PickleValue dict : elements) {
      dicts.push_back(json::array());
      pickle.VisitEntries(
          dict, [&](absl::Span<const PickleValue> keys, absl::Span<const PickleValue> values) {
            for (std::size_t i = 0; i < keys.size(); ++i) {
              dicts.back().push_back(ToJson(pickle, keys[i]));
              dicts.back().push_back(ToJson(pickle, values[i]));
            }
            return true;
          });
    }
    return true;
  });
  return dicts;
}

// Opcodes of a list of dicts. Their keys and some values are six texts of the memo. `gap` stands
// between a new container and its contents.
class DictOpcodes {
 public:
  DictOpcodes(std::uint32_t seed, std::string gap) : draw_(seed), gap_(std::move(gap)) {}

  std::string Make() {
    std::string opcodes = "\x80\4";
    for (char text = 'a'; text <= 'f'; ++text)
      opcodes += std::string("\x8c\1") + text + "\x94" + "0";
    opcodes += "]\x94(";
    for (int i = 0; i < 60; ++i) {
      opcodes += Dict();
      // A number of the memo may get another value, which keys have from then on.
      if (Below(20) == 0) opcodes += "K" + Byte(Below(256)) + "q" + Byte(Below(6)) + "0";
    }
    return opcodes + "e." + std::string(2000, '\0');
  }

 private:
  std::uint32_t Below(std::uint32_t limit) { return draw_() % limit; }
  static std::string Byte(std::uint32_t byte) { return {static_cast<char>(byte)}; }
  std::string Known() {
    const std::uint32_t number = Below(6);
    return Below(3) > 0 ? "h" + Byte(number) : "j" + LittleEndian(number, 4);
  }
  std::string Dict() {
    std::string opcodes = "}\x94" + gap_ + "(";
    const std::uint32_t entries = Below(30) == 0 ? 200 : Below(7);
    for (std::uint32_t i = 0; i < entries; ++i)
      opcodes += (Below(12) > 0 ? "h" + Byte(i % 6) : Known()) + Value(Below(16));
    return opcodes + "u";
  }
  std::string Text() {
    const std::uint32_t size = Below(11);
    const std::string memoize = Below(8) > 0 ? "\x94" : "";
    return "\x8c" + Byte(size) + std::string(size, "xy"[Below(2)]) + memoize;
  }
  std::string Value(std::uint32_t kind) {
    if (kind < 3) return Known();
    if (kind < 5) return "K" + Byte(Below(256));
    if (kind < 6) return "M" + LittleEndian(Below(65536), 2);
    if (kind < 7) return "J" + LittleEndian(draw_(), 4);
    if (kind < 10) return "\x8a\6" + LittleEndian(draw_() % 5 * 0x0123456789ABU, 6);
    if (kind < 11) return "N";
    if (kind < 12) return Text();
    if (kind < 13) return "}\x94" + gap_ + "(\x8c\1k" + Known() + "u";
    std::string list = "]\x94";
    if (kind < 14) return list;
    list += gap_ + "(";
    const std::uint32_t elements = Below(40) == 0 ? 600 : Below(5);
    for (std::uint32_t i = 0; i < elements; ++i) list += Below(50) == 0 ? "N" : Known();
    return list + "e";
  }

  std::mt19937 draw_;
  std::string gap_;
};

// None is pushed and popped in the gap.
TEST(Pickle, DictsAreEqualWhateverOpcodesMakeThem) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const auto together = ParsePickle(DictOpcodes(seed, "").Make());
    const auto apart = ParsePickle(DictOpcodes(seed, "N0").Make());
    ASSERT_TRUE(together.ok()) << together.status();
    ASSERT_TRUE(apart.ok()) << apart.status();
    ASSERT_TRUE(DictsOf(*together) == DictsOf(*apart)) << seed;
    EXPECT_EQ(together->containers(), apart->containers());
  }
}

TEST(Pickle, KeepsShortTextsOnce) {
  std::string opcodes = "\x80\4](";
  for (int i = 0; i < 100; ++i) opcodes += "\x8c\3N/A\x94\x8c\1N\x94\x8c\2N\0\x94X\3\0\0\0N/A\x94"s;
  const auto pickle = ParsePickle(opcodes + "e.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->texts(), 3U);
  const json texts = ToJson(*pickle, pickle->root());
  ASSERT_EQ(texts.size(), 400U);
  EXPECT_EQ(texts[396], "N/A");
  EXPECT_EQ(texts[397], "N");
  EXPECT_EQ(texts[398], "N\0"s);
  EXPECT_EQ(texts[399], "N/A");
}

TEST(Pickle, CutsShortTextsOffWhereTheFileEnds) {
  EXPECT_THAT(PickleErrorOf("\x80\4\x8c\3N/"), HasSubstr("byte 2: opcode SHORT_BINUNICODE"));
}

TEST(Pickle, DictsMayContainThemselves) {
  // Keys are the text of memo number 0; the dicts have the numbers 1 and 2, the list 3.
  const std::string key = "\x80\4\x8c\1k\x94" + "0"s;
  const std::string first = "}\x94(h\0h\0u0"s;
  const std::string padding(2000, '\0');
  const auto in_itself = ParsePickle(key + first + "}\x94(h\0h\2u."s + padding);
  ASSERT_TRUE(in_itself.ok()) << in_itself.status();
  in_itself->VisitEntries(in_itself->root(), [&](absl::Span<const PickleValue> /*keys*/,
                                                 absl::Span<const PickleValue> values) {
    EXPECT_EQ(values[0], in_itself->root());
    return true;
  });
  const auto in_list = ParsePickle(key + first + "}\x94(h\0]\x94(h\2h\3eu."s + padding);
  ASSERT_TRUE(in_list.ok()) << in_list.status();
  in_list->VisitEntries(in_list->root(), [&](absl::Span<const PickleValue> /*keys*/,
                                             absl::Span<const PickleValue> values) {
    return in_list->VisitElements(values[0], [&](absl::Span<const PickleValue> elements) {
      EXPECT_EQ(elements[0], in_list->root());
      EXPECT_EQ(elements[1], values[0]);
      return true;
    });
  });
  EXPECT_THAT(PickleErrorOf(key + first + "}\x94(h\0h\4u."s + padding),
              HasSubstr("byte 21: opcode BINGET (0x68): unknown memo number 4"));
}

TEST(Pickle, UnfoldsNothing) {
  // Each list holds the previous list a hundred times: 100^30 elements if expanded.
  std::string bomb = "\x80\2]q" + std::string(1, '\0');
  for (char level = 1; level <= 30; ++level) {
    bomb += "0](";
    for (int i = 0; i < 100; ++i) bomb += std::string("h") + static_cast<char>(level - 1);
    bomb += std::string("eq") + level;
  }
  const std::string bytes = bomb + ".";
  const auto pickle = ParsePickle(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->elements(), 30 * 100);
  EXPECT_EQ(pickle->containers(), 31);
}

TEST(Pickle, IgnoresWhatIsBehindItsEnd) {
  EXPECT_TRUE(ParsePickle(Pickled({1, 2}) + "anything").ok());
}

}  // namespace
}  // namespace tidepool::pytorch
