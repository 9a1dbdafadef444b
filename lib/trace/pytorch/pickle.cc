// SPDX-License-Identifier: Apache-2.0
// Pickle machine: runs a pickle with a stack of values, marks on the stack, and a memo. It
// implements the opcodes that Python's picklers emit for plain data, and refuses all others by
// name.
#include "lib/trace/pytorch/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/capacity.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/trace/pytorch/pickle_input.h"
#include "lib/trace/pytorch/pickle_opcodes.h"

namespace tidepool::pytorch {

using Kind = PickleValue::Kind;

namespace {

constexpr int kFirstProtocol = 2;
constexpr int kLastProtocol = 5;

bool IsLarge(std::int64_t integer) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 27;
  return integer < -kLimit || integer >= kLimit;
}

// Returns the lowest `width` bytes in two's complement.
std::int64_t Signed(std::uint64_t word, int width) {
  const int unused = 64 - 8 * width;
  return static_cast<std::int64_t>(word << unused) >> unused;
}

std::string OpcodeText(std::uint8_t byte) {
  const char* name = OpcodeName(byte);
  const std::string code = absl::StrCat("0x", absl::Hex(byte, absl::kZeroPad2));
  return name == nullptr ? absl::StrCat("the unknown opcode ", code)
                         : absl::StrCat("opcode ", name, " (", code, ")");
}

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(io::ByteSource& source) : input_(source) {}

  absl::StatusOr<Pickle> Run() {
    if (!Fill()) return status_;
    if (input_.ahead().empty() || input_.ahead()[0] != '\x80') {
      return absl::InvalidArgumentError(
          "byte 0: no opcode PROTO (0x80), expected a pickle of protocol 2 to 5");
    }
    while (!stopped_) {
      if (!RunNext()) return status_;
    }
    return std::move(pickle_);
  }

 private:
  // Upper bound for an opcode with its fixed-size arguments.
  static constexpr std::size_t kLongestOpcode = 16;

  bool RunNext() {
    if (input_.ahead().size() < kLongestOpcode && !Fill()) return false;
    if (TakeDictAhead()) return true;
    PushAhead();
    opcode_at_ = input_.position();
    if (input_.ahead().empty())
      return Fail("the file is cut off, expected the opcode STOP at its end");
    opcode_ = static_cast<std::uint8_t>(input_.TakeByte());
    if (Step(opcode_)) return true;
    return status_.ok() ? FailAtOpcode("the file is cut off, expected all of the argument") : false;
  }

  bool Fail(absl::string_view what) {
    status_ = absl::InvalidArgumentError(absl::StrCat("byte ", opcode_at_, ": ", what));
    return false;
  }
  bool FailAtOpcode(absl::string_view what) {
    return Fail(absl::StrCat(OpcodeText(opcode_), ": ", what));
  }

  // Refills the buffer, then checks the memory of all values. One check for each buffer is enough,
  // because a buffer can add only a bounded number of values. Without the check, a megabyte of gzip
  // could expand to a gigabyte of opcodes, each of them a value.
  bool Fill() {
    if (input_.is_at_end()) return true;
    ReserveForRest();
    if (status_ = input_.Fill(); !status_.ok()) return false;
    const std::uint64_t position = input_.position();
    if (position + input_.ahead().size() >= UINT32_MAX) {
      status_ = absl::InvalidArgumentError("a pickle of 4 GiB or more, expected less");
      return false;
    }
    if (MostOfAKind() + input_.ahead().size() > kMostOfAKind) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("byte ", position, ": more than ", kMostOfAKind,
                       " texts, containers or large numbers, more than any snapshot has"));
      return false;
    }
    if (KeptBytes() <=
        kFreeBytes + std::min(kBytesAByte * position, kBytesAFileByte * input_.file_bytes())) {
      return true;
    }
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "byte ", position, ": ", KeptBytes(), " bytes of values from ", input_.file_bytes(),
        " bytes of a file, more than any snapshot has (if it is a snapshot, decompress it first)"));
    return false;
  }

  // Takes memory for the rest of the file, as far as the part before this buffer tells.
  void ReserveForRest() {
    if (input_.file_size() == 0) return;
    const double part = static_cast<double>(input_.file_bytes()) /
                        static_cast<double>(std::max(input_.file_bytes(), input_.file_size()));
    ReserveFor(part, pickle_.values_);
    ReserveFor(part, pickle_.containers_);
    ReserveFor(part, pickle_.integers_);
    ReserveFor(part, memo_);
  }
  template <typename Element>
  static void ReserveFor(double part, std::vector<Element>& elements) {
    constexpr std::size_t kMostOfBuffer = std::size_t{1} << 14;  // that most buffers add
    const std::size_t size = elements.size();
    if (size == 0 || elements.capacity() - size >= kMostOfBuffer) return;
    elements.reserve(io::CapacityFor(size, static_cast<double>(size) / part));
  }

  std::uint64_t MostOfAKind() const {
    return std::max({pickle_.texts_.size(), pickle_.containers_.size(), pickle_.integers_.size(),
                     pickle_.floats_.size()});
  }
  std::uint64_t KeptBytes() const {
    return pickle_.text_.size() + sizeof(Pickle::IndexRange) * pickle_.texts_.size() +
           sizeof(PickleValue) * (pickle_.values_.size() + stack_.size() + memo_.size()) +
           sizeof(Pickle::Container) * pickle_.containers_.size() +
           sizeof(Pickle::IndexRange) * pickle_.key_sets_.size() +
           sizeof(Pickle::Part) * pickle_.parts_.size() +
           sizeof(std::pair<std::uint32_t, Pickle::Tail>) * pickle_.tails_.capacity() +
           sizeof(std::uint64_t) * (pickle_.integers_.size() + pickle_.floats_.size()) +
           sizeof(std::uint32_t) * marks_.size();
  }

  // Pushes the values of the opcodes that come next in the buffer, as far as these are memo entries
  // and integers: most opcodes of a snapshot are. Leaves all others, and errors, to Step.
  void PushAhead() {
    const std::string_view ahead = input_.ahead();
    std::size_t at = 0;
    PickleValue value;
    while (at + kLongestOpcode <= ahead.size() && stack_.size() < kMostWaiting) {
      const std::size_t bytes = ValueAt(ahead.data() + at, &value);
      if (bytes == 0) break;
      stack_.push_back(value);
      at += bytes;
    }
    input_.Skip(at);
  }

  // Takes a new dict that comes next in the buffer, with all its entries: keys and values that
  // PushAhead knows, new short texts, and at most one list of such values. Most dicts of a snapshot
  // are of this kind, and have the keys of others before. Takes nothing of any other dict, and
  // returns false.
  bool TakeDictAhead() {
    constexpr std::uint64_t kBegin = '}' | 0x94 << 8 | '(' << 16;  // EMPTY_DICT MEMOIZE MARK
    const std::string_view ahead = input_.ahead();
    if (ahead.size() < kMostDictBytes || (input_.Word() & 0xFFFFFF) != kBegin) return false;
    // A memo without gaps numbers each new object. On the stack the opcodes would need room.
    if (memo_.size() != memoized_ || stack_.size() + kMostDictBytes > kMostWaiting ||
        marks_.size() + 2 > kMostWaiting) {
      return false;
    }
    dict_.value_count = 0;
    dict_.memoized_count = 0;
    dict_.has_list = false;
    const char* const begin = ahead.data();
    const char* const last = begin + kMostDictBytes - 2 * kLongestOpcode;
    const char* at = begin + 3;
    std::uint32_t node = 0;
    while (*at != static_cast<char>(Opcode::kSetItems)) {
      node = NextKey(node, &at);
      if (node == 0 || !TakeValueAhead(&at) || at > last) return false;
    }
    if (node == 0) return false;
    KeepDict(node);
    input_.Skip(static_cast<std::size_t>(at + 1 - begin));
    return true;
  }

  // Takes a key for TakeDictAhead. Returns its node, which follows that of the key before; 0 for an
  // opcode that PushAhead does not know.
  std::uint32_t NextKey(std::uint32_t node, const char** at) {
    const std::uint64_t word = PickleInput::WordAt(*at);
    std::uint32_t next = key_nodes_[node].first;
    while (next != 0 && (word & key_nodes_[next].mask) != key_nodes_[next].opcode)
      next = key_nodes_[next].sibling;
    if (next == 0) next = AddKey(node, *at);
    *at += key_nodes_[next].bytes;
    return next;
  }

  // Adds a node for a key. Returns 0 for an opcode that PushAhead does not know, for one of eight
  // bytes or more, and for too many nodes.
  std::uint32_t AddKey(std::uint32_t node, const char* at) {
    PickleValue key;
    const std::size_t bytes = ValueAt(at, &key);
    if (bytes == 0 || bytes >= sizeof(std::uint64_t) || key_nodes_.size() >= kMostKeyNodes)
      return 0;
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * bytes);
    const auto added = static_cast<std::uint32_t>(key_nodes_.size());
    key_nodes_.push_back({.opcode = PickleInput::WordAt(at) & mask,
                          .mask = mask,
                          .bytes = bytes,
                          .key = key,
                          .before = node,
                          .sibling = key_nodes_[node].first});
    key_nodes_[node].first = added;
    return added;
  }

  // Takes a value for TakeDictAhead.
  bool TakeValueAhead(const char** at) {
    PickleValue* const value = &dict_.values[dict_.value_count++];
    std::size_t bytes = ValueAt(*at, value);
    if (bytes == 0) {
      bytes = **at == static_cast<char>(Opcode::kShortBinUnicode) ? TakeTextAhead(*at, value)
                                                                  : TakeListAhead(*at, value);
      dict_.memoized[dict_.memoized_count++] = *value;
    }
    *at += bytes;
    return bytes != 0;
  }

  // Takes a new short text for TakeDictAhead. Returns its bytes; 0 for any other text.
  std::size_t TakeTextAhead(const char* begin, PickleValue* value) {
    const auto size = static_cast<std::uint8_t>(begin[1]);
    if (!IsShort(size) || begin[2 + size] != static_cast<char>(Opcode::kMemoize)) return 0;
    *value = ShortText(begin + 2, size);
    return std::size_t{3} + size;
  }

  // Takes a new list for TakeDictAhead. Returns its bytes; 0 for one that ends too late or has
  // other elements, and for a second list.
  std::size_t TakeListAhead(const char* begin, PickleValue* value) {
    constexpr std::uint64_t kBegin = ']' | 0x94 << 8;  // EMPTY_LIST MEMOIZE
    if (dict_.has_list || (PickleInput::WordAt(begin) & 0xFFFF) != kBegin) return 0;
    dict_.has_list = true;
    dict_.element_count = 0;
    *value = {Kind::kList, static_cast<std::int64_t>(pickle_.containers_.size() + 1)};
    if (begin[2] != static_cast<char>(Opcode::kMark)) return 2;
    const char* at = begin + 3;
    const char* const end = input_.ahead().data() + kMostDictBytes - kLongestOpcode;
    for (PickleValue element; at < end;) {
      const std::size_t bytes = ValueAt(at, &element);
      if (bytes == 0) break;
      dict_.elements[dict_.element_count++] = element;
      at += bytes;
    }
    return *at == static_cast<char>(Opcode::kAppends) ? static_cast<std::size_t>(at + 1 - begin)
                                                      : 0;
  }

  // Keeps the dict of TakeDictAhead, as the opcodes would one by one.
  void KeepDict(std::uint32_t last_key) {
    const auto index = static_cast<std::uint32_t>(pickle_.containers_.size());
    const PickleValue dict(Kind::kDict, index);
    const absl::Span<const PickleValue> values(dict_.values.data(), dict_.value_count);
    const absl::Span<const PickleValue> elements(dict_.elements.data(), dict_.element_count);
    const std::uint32_t keys = SetOf(last_key);
    pickle_.containers_.push_back({New(values).begin, keys});
    if (dict_.has_list) {
      const Pickle::IndexRange list = elements.empty() ? Pickle::IndexRange{} : Shared(elements);
      pickle_.containers_.push_back({list.begin, list.size});
    }
    memo_.push_back(dict);
    for (std::size_t i = 0; i < dict_.memoized_count; ++i) memo_.push_back(dict_.memoized[i]);
    memoized_ = memo_.size();
    stack_.push_back(dict);
  }

  // Returns the number of the keys up to a node.
  std::uint32_t SetOf(std::uint32_t last_key) {
    std::uint32_t& set = key_nodes_[last_key].set;
    if (set != 0) return set;  // 0 is that of the empty dict
    std::vector<PickleValue> keys;
    for (std::uint32_t node = last_key; node != 0; node = key_nodes_[node].before)
      keys.push_back(key_nodes_[node].key);
    std::reverse(keys.begin(), keys.end());
    set = KeySet(keys);
    return set;
  }

  // Returns the value of an opcode for PushAhead, and the size of the opcode; 0 for all others.
  [[gnu::always_inline]] std::size_t ValueAt(const char* bytes, PickleValue* value) {
    const std::uint64_t word = PickleInput::WordAt(bytes);
    const std::uint64_t argument = word >> 8;
    const auto opcode = static_cast<Opcode>(word & 0xFF);  // the most frequent ones first
    if (opcode == Opcode::kLongBinGet) return Entry(argument & 0xFFFFFFFF, value) ? 5 : 0;
    if (opcode == Opcode::kBinGet) return Entry(argument & 0xFF, value) ? 2 : 0;
    if (opcode == Opcode::kLong1) return LongAt(bytes + 1, value);
    if (opcode == Opcode::kBinInt1) {
      *value = {Kind::kInt, static_cast<std::int64_t>(argument & 0xFF)};
      return 2;
    }
    if (opcode == Opcode::kBinInt2) {
      *value = {Kind::kInt, static_cast<std::int64_t>(argument & 0xFFFF)};
      return 3;
    }
    if (opcode != Opcode::kBinInt) return 0;
    *value = Integer(static_cast<std::int32_t>(argument));
    return 5;
  }
  std::size_t LongAt(const char* bytes, PickleValue* value) {
    const auto width = static_cast<std::uint8_t>(*bytes);
    if (width == 0 || width > 8) return 0;
    *value = Integer(Signed(PickleInput::WordAt(bytes + 1), width));
    return std::size_t{2} + width;
  }

  // Runs one opcode. Returns false for an error, or when the bytes end.
  bool Step(std::uint8_t byte) {
    switch (static_cast<Opcode>(byte)) {
      case Opcode::kProto:
        return Protocol();
      case Opcode::kFrame:
        return Frame();
      case Opcode::kStop:
        stopped_ = true;
        return Pop(&pickle_.root_);
      case Opcode::kMark:
        if (marks_.size() >= kMostWaiting) return FailAtOpcode("too many marks on the stack");
        marks_.push_back(static_cast<std::uint32_t>(stack_.size()));
        return true;
      case Opcode::kEmptyDict:
        return PushContainer(Kind::kDict, {});
      case Opcode::kEmptyList:
        return PushContainer(Kind::kList, {});
      case Opcode::kSetItems:
        return AddFromMark(Kind::kDict);
      case Opcode::kAppends:
        return AddFromMark(Kind::kList);
      case Opcode::kMemoize:
        return Put(memoized_);
      case Opcode::kPop:
        return PopOrMark();
      case Opcode::kPopMark:
        return PopToMark(nullptr);
      case Opcode::kDup:
        return Top() != nullptr && Push(*Top());
      case Opcode::kNone:
        return Push({});
      case Opcode::kNewTrue:
        return Push({Kind::kBool, 1});
      case Opcode::kNewFalse:
        return Push({Kind::kBool, 0});
      default:
        return StepScalar(byte);
    }
  }

  bool StepScalar(std::uint8_t byte) {
    switch (static_cast<Opcode>(byte)) {
      case Opcode::kBinInt1:
        return FixedInteger(1);
      case Opcode::kBinInt2:
        return FixedInteger(2);
      case Opcode::kBinInt:
        return SignedInteger(4);
      case Opcode::kLong1:
        return Long(1);
      case Opcode::kLong4:
        return Long(4);
      case Opcode::kInt:
      case Opcode::kLong:
        return IntegerLine();
      case Opcode::kBinFloat:
        return Float();
      case Opcode::kFloat:
        return FloatLine();
      case Opcode::kShortBinUnicode:
        return Text(Kind::kText, 1);
      case Opcode::kBinUnicode:
        return Text(Kind::kText, 4);
      case Opcode::kBinUnicode8:
        return Text(Kind::kText, 8);
      case Opcode::kShortBinString:  // texts of Python 2
        return Text(Kind::kText, 1);
      case Opcode::kBinString:
        return Text(Kind::kText, 4);
      case Opcode::kShortBinBytes:
        return Text(Kind::kBytes, 1);
      case Opcode::kBinBytes:
        return Text(Kind::kBytes, 4);
      case Opcode::kBinBytes8:
        return Text(Kind::kBytes, 8);
      default:
        return StepContainer(byte);
    }
  }

  bool StepContainer(std::uint8_t byte) {
    switch (static_cast<Opcode>(byte)) {
      case Opcode::kEmptyTuple:
        return PushContainer(Kind::kTuple, {});
      case Opcode::kTuple1:
        return SmallTuple(1);
      case Opcode::kTuple2:
        return SmallTuple(2);
      case Opcode::kTuple3:
        return SmallTuple(3);
      case Opcode::kTuple:
        return FromMark(Kind::kTuple);
      case Opcode::kList:
        return FromMark(Kind::kList);
      case Opcode::kDict:
        return FromMark(Kind::kDict);
      case Opcode::kAppend:
        return AddTop(Kind::kList, 1);
      case Opcode::kSetItem:
        return AddTop(Kind::kDict, 2);
      default:
        return StepMemo(byte);
    }
  }

  bool StepMemo(std::uint8_t byte) {
    switch (static_cast<Opcode>(byte)) {
      case Opcode::kBinGet:
        return GetNumbered(1);
      case Opcode::kLongBinGet:
        return GetNumbered(4);
      case Opcode::kBinPut:
        return PutNumbered(1);
      case Opcode::kLongBinPut:
        return PutNumbered(4);
      case Opcode::kGet:
        return GetLine();
      case Opcode::kPut:
        return PutLine();
      default:
        return Fail(absl::StrCat(OpcodeText(byte),
                                 ", expected opcodes of None, bools, numbers, texts, bytes, "
                                 "lists, tuples and dicts"));
    }
  }

  // Takes a little-endian number of `width` bytes.
  bool Take(int width, std::uint64_t* number) {
    if (input_.ahead().size() < static_cast<std::size_t>(width)) return false;
    *number = input_.Word() & (~std::uint64_t{0} >> (64 - 8 * width));
    input_.Skip(static_cast<std::size_t>(width));
    return true;
  }

  // Takes a line. Lines hold only numbers, so a whole line fits into the buffer.
  bool TakeLine(std::string_view* line) {
    std::size_t end = input_.ahead().find('\n');
    if (end == std::string_view::npos) {
      if (!Fill()) return false;
      end = input_.ahead().find('\n');
      if (end == std::string_view::npos && !input_.is_at_end())
        return FailAtOpcode("a line of more than 64 KiB, expected a number");
      if (end == std::string_view::npos) return false;
    }
    *line = input_.ahead().substr(0, end);
    input_.Skip(end + 1);
    return true;
  }

  // Calls `take` with the next `size` bytes, buffer by buffer, so that a wrong size never reserves
  // memory. Stops early when `take` returns false.
  template <typename TakePart>
  bool TakeBytes(std::uint64_t size, const TakePart& take) {
    while (size > 0) {
      if (input_.ahead().empty()) {
        if (!Fill()) return false;
        if (input_.ahead().empty()) {
          return FailAtOpcode(
              absl::StrCat("the file is cut off, expected ", size, " more bytes of the argument"));
        }
      }
      const std::string_view part = input_.ahead().substr(0, size);
      if (!take(part)) return false;
      input_.Skip(part.size());
      size -= part.size();
    }
    return true;
  }

  bool Protocol() {
    std::uint64_t protocol = 0;
    if (!Take(1, &protocol)) return false;
    if (protocol >= kFirstProtocol && protocol <= kLastProtocol) return true;
    return Fail(absl::StrCat("pickle protocol ", protocol, ", expected ", kFirstProtocol, " to ",
                             kLastProtocol));
  }

  // Skips the size of a frame, which is only a hint for Python's buffering.
  bool Frame() {
    std::uint64_t size = 0;
    return Take(8, &size) && CheckLength(size);
  }

  bool CheckLength(std::uint64_t size) {
    if (size < UINT32_MAX) return true;
    return FailAtOpcode(absl::StrCat(size, " bytes, expected less than 4 GiB"));
  }

  bool Push(PickleValue value) {
    if (stack_.size() >= kMostWaiting) {
      return FailAtOpcode("too many values on the stack");
    }
    stack_.push_back(value);
    return true;
  }

  PickleValue Integer(std::int64_t integer) {
    if (!IsLarge(integer)) return {Kind::kInt, integer};
    return LargeInteger(Kind::kLargeInt, static_cast<std::uint64_t>(integer));
  }
  // Keeps an integer that no value holds, or returns that of before: the addresses of allocations
  // and streams repeat.
  PickleValue LargeInteger(Kind kind, std::uint64_t integer) {
    KnownInteger& known = known_integers_[(integer * kFactor) >> (64 - kKnownIntegerBits)];
    if (known.integer != integer || known.value.kind() != kind) Keep(kind, integer, known);
    return known.value;
  }
  struct KnownInteger {
    std::uint64_t integer = 0;
    PickleValue value = {};
  };
  [[gnu::noinline]] void Keep(Kind kind, std::uint64_t integer, KnownInteger& known) {
    known = {integer, {kind, static_cast<std::int64_t>(pickle_.integers_.size())}};
    pickle_.integers_.push_back(integer);
  }
  bool PushInteger(std::int64_t integer) { return Push(Integer(integer)); }

  bool FixedInteger(int width) {
    std::uint64_t integer = 0;
    return Take(width, &integer) && PushInteger(static_cast<std::int64_t>(integer));
  }

  bool SignedInteger(int width) {
    std::uint64_t integer = 0;
    return Take(width, &integer) && PushInteger(Signed(integer, width));
  }

  // Takes an integer of any number of bytes in two's complement, if its value fits into 64 bits.
  bool Long(int width) {
    std::uint64_t size = 0;
    if (!Take(width, &size) || !CheckLength(size)) return false;
    if (size == 0) return PushInteger(0);
    if (size <= 8) return SignedInteger(static_cast<int>(size));
    std::uint64_t integer = 0;
    if (!Take(8, &integer)) return false;
    const bool is_negative = static_cast<std::int64_t>(integer) < 0;
    // Expected sign byte. If the next byte is neither sign, the integer is too long either way.
    const char sign = input_.ahead().substr(0, 1) == "\xff" ? '\xff' : '\0';
    const bool is_short = TakeBytes(size - 8, [&](std::string_view more) {
      return more.find_first_not_of(sign) == std::string_view::npos;
    });
    if (!status_.ok()) return false;
    if (is_short && sign == (is_negative ? '\xff' : '\0'))
      return PushInteger(static_cast<std::int64_t>(integer));
    if (!is_short || sign != '\0')
      return FailAtOpcode("an integer of more than 64 bits, expected at most 64");
    return Push(LargeInteger(Kind::kUnsigned, integer));
  }

  bool IntegerLine() {
    std::string_view line;
    if (!TakeLine(&line)) return false;
    if (line == "00" || line == "01") return Push({Kind::kBool, line == "01" ? 1 : 0});
    std::int64_t integer = 0;
    if (!line.empty() && line.back() == 'L') line.remove_suffix(1);
    if (io::ParseInteger(line, &integer)) return PushInteger(integer);
    return FailAtOpcode(absl::StrCat(text::Quoted(line), ", expected an integer of 64 bits"));
  }

  bool Float() {
    std::uint64_t bits = 0;
    if (!Take(8, &bits)) return false;
    return PushFloat(std::bit_cast<double>(__builtin_bswap64(bits)));
  }

  bool FloatLine() {
    std::string_view line;
    double number = 0;
    if (!TakeLine(&line)) return false;
    if (absl::SimpleAtod({line.data(), line.size()}, &number)) return PushFloat(number);
    return FailAtOpcode(absl::StrCat(text::Quoted(line), ", expected a number"));
  }

  bool PushFloat(double number) {
    pickle_.floats_.push_back(number);
    return Push({Kind::kFloat, static_cast<std::int64_t>(pickle_.floats_.size() - 1)});
  }

  bool Text(Kind kind, int width) {
    std::uint64_t size = 0;
    if (!Take(width, &size) || !CheckLength(size)) return false;
    if (kind == Kind::kText && IsShort(size) && size <= input_.ahead().size()) {
      const PickleValue text = ShortText(input_.ahead().data(), size);
      input_.Skip(size);
      return Push(text);
    }
    const auto begin = static_cast<std::uint32_t>(pickle_.text_.size());
    const auto append = [this](std::string_view part) {
      pickle_.text_ += part;
      return true;
    };
    if (!TakeBytes(size, append)) return false;
    pickle_.texts_.push_back({begin, static_cast<std::uint32_t>(size)});
    return Push({kind, static_cast<std::int64_t>(pickle_.texts_.size() - 1)});
  }

  static bool IsShort(std::uint64_t size) { return size >= 1 && size <= kMostShortText; }
  // Keeps a short text, or returns that of before: each event of PyTorch has a text of its own for
  // the context of the compiler.
  PickleValue ShortText(const char* text, std::uint64_t size) {
    const std::uint64_t word = PickleInput::WordAt(text) & (~std::uint64_t{0} >> (64 - 8 * size));
    KnownText& known = known_texts_[((word + size) * kFactor) >> (64 - kKnownTextBits)];
    if (known.word == word && known.size == size) return known.value;
    const auto begin = static_cast<std::uint32_t>(pickle_.text_.size());
    known = {word, static_cast<std::uint32_t>(size),
             PickleValue(Kind::kText, static_cast<std::int64_t>(pickle_.texts_.size()))};
    pickle_.text_.append(text, size);
    pickle_.texts_.push_back({begin, known.size});
    return known.value;
  }

  // Returns the number of values above the last mark.
  std::size_t Reach() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickleValue* Top() {
    if (Reach() > 0) return &stack_.back();
    FailAtOpcode("the stack is empty, expected a value");
    return nullptr;
  }

  bool Pop(PickleValue* value) {
    if (Top() == nullptr) return false;
    *value = stack_.back();
    stack_.pop_back();
    return true;
  }

  bool PopOrMark() {
    if (Reach() == 0 && !marks_.empty()) return PopToMark(nullptr);
    PickleValue ignored;
    return Pop(&ignored);
  }

  // Removes the last mark. Returns the beginning of the values above it in `begin`; removes these
  // values if `begin` is null.
  bool PopToMark(std::uint32_t* begin) {
    if (marks_.empty()) return FailAtOpcode("no mark is on the stack");
    const std::uint32_t mark = marks_.back();
    marks_.pop_back();
    if (begin == nullptr) {
      stack_.resize(mark);
    } else {
      *begin = mark;
    }
    return true;
  }

  absl::Span<const PickleValue> From(std::size_t begin) const {
    return absl::MakeConstSpan(stack_).subspan(begin);
  }

  void Add(Kind kind, std::uint32_t index, absl::Span<const PickleValue> elements) {
    if (elements.empty()) return;
    Pickle::Container& container = pickle_.containers_[index];
    const bool is_first = container.what == 0;  // an empty container has neither elements nor keys
    if (kind == Kind::kDict) {
      const std::uint32_t keys = KeysOf(elements);
      const std::uint32_t begin = AddValues(elements);
      const Pickle::IndexRange& set = pickle_.key_sets_[keys];
      is_first ? void(container = {begin, keys})
               : AddPart(kind, index, {begin, set.size, set.begin});
    } else if (is_first) {
      const Pickle::IndexRange place = Shared(elements);
      container = {place.begin, place.size};
    } else if (!Extend(index, elements)) {
      const Pickle::IndexRange place = New(elements);
      AddPart(kind, index, {place.begin, place.size});
    }
  }

  Pickle::IndexRange New(absl::Span<const PickleValue> elements) {
    const auto begin = static_cast<std::uint32_t>(pickle_.values_.size());
    pickle_.values_.insert(pickle_.values_.end(), elements.begin(), elements.end());
    return {begin, static_cast<std::uint32_t>(elements.size())};
  }

  // Keeps the values of entries, in which keys and values alternate. Returns their place.
  std::uint32_t AddValues(absl::Span<const PickleValue> entries) {
    const auto begin = static_cast<std::uint32_t>(pickle_.values_.size());
    pickle_.values_.resize(begin + entries.size() / 2);
    PickleValue* value = &pickle_.values_[begin];
    for (std::size_t i = 1; i < entries.size(); i += 2) *value++ = entries[i];
    return begin;
  }

  // Returns the number of the keys of entries: mostly that of the dict before.
  std::uint32_t KeysOf(absl::Span<const PickleValue> entries) {
    if (2 * keys_.size() == entries.size() && HasKeys(entries)) return key_set_;
    keys_.clear();
    for (std::size_t i = 0; i < entries.size(); i += 2) keys_.push_back(entries[i]);
    key_set_ = KeySet(keys_);
    return key_set_;
  }
  // Returns the number of keys, which are kept if they are new.
  std::uint32_t KeySet(absl::Span<const PickleValue> keys) {
    std::uint32_t& known = known_keys_[HashOf(keys) % known_keys_.size()];
    if (!IsAt(pickle_.key_sets_[known], keys)) {
      known = static_cast<std::uint32_t>(pickle_.key_sets_.size());
      pickle_.key_sets_.push_back(New(keys));
    }
    return known;
  }
  bool HasKeys(absl::Span<const PickleValue> entries) const {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] != entries[2 * i]) return false;
    }
    return true;
  }

  // Returns the place of equal elements if the table has one. Otherwise keeps the elements and
  // notes their place in the table. Each event has a list of its own for a stack that others had
  // before it.
  Pickle::IndexRange Shared(absl::Span<const PickleValue> elements) {
    if (elements.size() > kMostShared) return New(elements);
    auto& [newer, older] = known_[HashOf(elements) % kKnownPairs];
    if (IsAt(newer, elements)) return newer;
    if (IsAt(older, elements)) return older;
    older = newer;
    newer = New(elements);
    return newer;
  }
  bool IsAt(const Pickle::IndexRange& place, absl::Span<const PickleValue> elements) const {
    return place.size == elements.size() &&
           std::memcmp(&pickle_.values_[place.begin], elements.data(),
                       sizeof(PickleValue) * elements.size()) == 0;
  }

  // Adds elements to the last part of a list if nothing was kept after that part.
  bool Extend(std::uint32_t index, absl::Span<const PickleValue> elements) {
    Pickle::Container& container = pickle_.containers_[index];
    if (container.what != Pickle::kInParts) {
      if (container.begin + container.what != pickle_.values_.size()) return false;
      container.what += New(elements).size;
      return true;
    }
    Pickle::Tail& tail = pickle_.tails_.at(index);
    Pickle::Part& last = pickle_.parts_[tail.last];
    if (last.begin + last.size != pickle_.values_.size()) return false;
    last.size += New(elements).size;
    tail.size += static_cast<std::uint32_t>(elements.size());
    return true;
  }

  // Adds a part to a container that is not empty.
  void AddPart(Kind kind, std::uint32_t index, const Pickle::Part& added) {
    Pickle::Container& container = pickle_.containers_[index];
    const auto number = static_cast<std::uint32_t>(pickle_.parts_.size());
    if (container.what != Pickle::kInParts) {
      const Pickle::Part first = pickle_.OnlyPart({kind, index});
      pickle_.parts_.push_back(first);
      container = {number, Pickle::kInParts};
      pickle_.tails_[index] = {number, first.size};
    }
    Pickle::Tail& tail = pickle_.tails_.at(index);
    pickle_.parts_[tail.last].next = static_cast<std::uint32_t>(pickle_.parts_.size());
    tail = {pickle_.parts_[tail.last].next, tail.size + added.size};
    pickle_.parts_.push_back(added);
  }

  // A polynomial of the values in two halves: their multiplications overlap.
  static std::size_t HashOf(absl::Span<const PickleValue> elements) {
    std::uint64_t even = 0;
    std::uint64_t odd = elements.size();
    std::size_t i = 0;
    for (; i + 1 < elements.size(); i += 2) {
      even = (even ^ elements[i].bits()) * kFactor;
      odd = (odd ^ elements[i + 1].bits()) * kFactor;
    }
    if (i < elements.size()) even = (even ^ elements[i].bits()) * kFactor;
    const std::uint64_t both = even ^ (odd >> 7);
    return static_cast<std::size_t>(((both ^ (both >> 32)) * kFactor) >> 32);
  }

  bool PushContainer(Kind kind, absl::Span<const PickleValue> elements) {
    const auto index = static_cast<std::uint32_t>(pickle_.containers_.size());
    pickle_.containers_.emplace_back();
    Add(kind, index, elements);
    return Push({kind, index});
  }

  bool SmallTuple(std::size_t size) {
    if (Reach() < size)
      return FailAtOpcode(absl::StrCat("too few values on the stack, expected ", size));
    const std::size_t begin = stack_.size() - size;
    return Collect(Kind::kTuple, begin);
  }

  bool FromMark(Kind kind) {
    std::uint32_t begin = 0;
    return PopToMark(&begin) && CheckPairs(kind, stack_.size() - begin) && Collect(kind, begin);
  }

  // Replaces the values from `begin` on by a container of them.
  bool Collect(Kind kind, std::size_t begin) {
    const auto index = static_cast<std::uint32_t>(pickle_.containers_.size());
    pickle_.containers_.emplace_back();
    Add(kind, index, From(begin));
    stack_.resize(begin);
    return Push({kind, index});
  }

  bool CheckPairs(Kind kind, std::size_t values) {
    if (kind != Kind::kDict || values % 2 == 0) return true;
    return FailAtOpcode("a key without a value");
  }

  // Moves the values from `begin` on into the container below them.
  bool AddTo(Kind kind, std::size_t begin) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (begin <= floor || stack_[begin - 1].kind() != kind) {
      return FailAtOpcode(absl::StrCat(begin <= floor ? "nothing" : KindText(stack_[begin - 1]),
                                       " lies below the elements to add, expected ",
                                       KindText(PickleValue(kind, 0))));
    }
    Add(kind, stack_[begin - 1].index(), From(begin));
    stack_.resize(begin);
    return true;
  }

  bool AddTop(Kind kind, std::size_t count) {
    if (Reach() < count)
      return FailAtOpcode(absl::StrCat("too few values on the stack, expected ", count));
    return AddTo(kind, stack_.size() - count);
  }

  bool AddFromMark(Kind kind) {
    std::uint32_t begin = 0;
    return PopToMark(&begin) && CheckPairs(kind, stack_.size() - begin) && AddTo(kind, begin);
  }

  // Returns the value of the memo with this number in `value`. Returns false for an unknown number.
  bool Entry(std::uint64_t number, PickleValue* value) const {
    if (number >= memo_.size() || memo_[number] == kNothing) return false;
    *value = memo_[number];
    return true;
  }

  bool Get(std::uint64_t number) {
    PickleValue value;
    if (Entry(number, &value)) return Push(value);
    return FailAtOpcode(absl::StrCat("unknown memo number ", number));
  }

  // Keeps the top value under `number`. Picklers number from 0 on, so a number is less than the
  // bytes read; this check bounds the memo.
  bool Put(std::uint64_t number) {
    if (Top() == nullptr) return false;
    if (number >= input_.position()) {
      return FailAtOpcode(absl::StrCat("memo number ", number, ", expected less than ",
                                       input_.position(), ", the bytes of the pickle so far"));
    }
    if (number > memo_.size()) memo_.resize(number, kNothing);
    if (number == memo_.size()) memo_.push_back(kNothing);
    if (memo_[number] == kNothing) {
      ++memoized_;
    } else {
      key_nodes_.assign(1, KeyNode());  // the opcode of a key may have another value now
    }
    memo_[number] = stack_.back();
    return true;
  }

  bool GetNumbered(int width) {
    std::uint64_t number = 0;
    return Take(width, &number) && Get(number);
  }
  bool PutNumbered(int width) {
    std::uint64_t number = 0;
    return Take(width, &number) && Put(number);
  }

  bool TakeNumberLine(std::uint64_t* number) {
    std::string_view line;
    std::int64_t parsed = 0;
    if (!TakeLine(&line)) return false;
    if (!io::ParseInteger(line, &parsed) || parsed < 0)
      return FailAtOpcode(absl::StrCat(text::Quoted(line), ", expected a number"));
    *number = static_cast<std::uint64_t>(parsed);
    return true;
  }
  bool GetLine() {
    std::uint64_t number = 0;
    return TakeNumberLine(&number) && Get(number);
  }
  bool PutLine() {
    std::uint64_t number = 0;
    return TakeNumberLine(&number) && Put(number);
  }

  // Marks memo entries that were never set.
  static constexpr PickleValue kNothing{Kind::kNone, -1};

  // Limits on kept memory: always allowed, for each byte of the pickle, and for each byte of the
  // file. PyTorch's snapshots keep at most 3 bytes for each byte of the pickle, and 14 for each
  // byte of a compressed file.
  static constexpr std::uint64_t kFreeBytes = std::uint64_t{1} << 26;
  static constexpr std::uint64_t kBytesAByte = 16;
  static constexpr std::uint64_t kBytesAFileByte = 256;

  // Most elements of a part that is shared: a stack has tens of frames.
  static constexpr std::size_t kMostShared = 1024;
  // Most bytes of a dict that TakeDictAhead takes, and most nodes of keys.
  static constexpr std::size_t kMostDictBytes = 1024;
  static constexpr std::size_t kMostKeyNodes = 64;
  // Most bytes of a text that is kept once: those of a word. A key and such a text with its opcodes
  // end before the last byte that TakeDictAhead may look at.
  static constexpr std::size_t kMostShortText = sizeof(std::uint64_t);
  static_assert(sizeof(std::uint64_t) + kMostShortText + 3 <= 2 * kLongestOpcode);
  static constexpr std::size_t kKnownPairs = std::size_t{1} << 13;
  static constexpr int kKnownIntegerBits = 11;
  static constexpr int kKnownTextBits = 8;
  // The golden ratio in 64 bits, which spreads integers over a table.
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  // Objects that a value can number.
  static constexpr std::uint64_t kMostOfAKind = std::uint64_t{1} << 28;

  PickleInput input_;
  Pickle pickle_;
  // Places of elements by their hash. With a single place for each hash, two stacks of one hash
  // that alternate would be kept again for each event.
  std::vector<std::array<Pickle::IndexRange, 2>> known_ =
      std::vector<std::array<Pickle::IndexRange, 2>>(kKnownPairs);
  // Most values on the stack. Picklers add a thousand values at a time, but a compressed file of a
  // megabyte could stack more values than fit into memory.
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 24;

  // Keys of dicts, by their opcodes: a tree, in which the keys of a dict are a path from the root,
  // node 0. An index 0 is no node.
  struct KeyNode {
    std::uint64_t opcode = 0;  // with its argument
    std::uint64_t mask = 0;    // its bytes in a word
    std::size_t bytes = 0;
    PickleValue key = {};
    std::uint32_t before = 0;
    std::uint32_t first = 0;  // of the keys that follow
    std::uint32_t sibling = 0;
    std::uint32_t set = 0;  // the number of the keys up to this one; 0 before it is known
  };
  std::vector<KeyNode> key_nodes_ = std::vector<KeyNode>(1);
  // The dict of TakeDictAhead.
  struct DictAhead {
    // The opcodes of a key and its value have four bytes or more.
    std::array<PickleValue, kMostDictBytes / 4> values;
    std::size_t value_count = 0;
    // Its new texts and its list, in the order of the file.
    std::array<PickleValue, kMostDictBytes / 4> memoized;
    std::size_t memoized_count = 0;
    bool has_list = false;
    // The elements of the list. The opcode of each has two bytes or more.
    std::array<PickleValue, kMostDictBytes / 2> elements;
    std::size_t element_count = 0;
  };
  DictAhead dict_;

  std::vector<PickleValue> stack_;
  std::vector<std::uint32_t> marks_;  // height of the stack at each mark
  std::vector<PickleValue> memo_;
  std::vector<PickleValue> keys_;                   // of the last entries
  std::uint32_t key_set_ = 0;                       // their number
  std::array<std::uint32_t, 256> known_keys_ = {};  // numbers of keys by their hash
  // Short texts as words and their values, by their hash.
  struct KnownText {
    std::uint64_t word = 0;
    std::uint32_t size = 0;
    PickleValue value = {};
  };
  std::array<KnownText, std::size_t{1} << kKnownTextBits> known_texts_ = {};
  // Large integers and their values, by their hash.
  std::array<KnownInteger, std::size_t{1} << kKnownIntegerBits> known_integers_ = {};
  std::size_t memoized_ = 0;
  std::uint64_t opcode_at_ = 0;
  std::uint8_t opcode_ = 0;
  bool stopped_ = false;
  absl::Status status_;
};

const char* KindText(PickleValue value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
    case Kind::kLargeInt:
    case Kind::kUnsigned:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kText:
      return "a text";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
      return "a dict";
  }
  return "a value";
}

absl::StatusOr<Pickle> Pickle::Parse(io::ByteSource& source) { return PickleMachine(source).Run(); }

}  // namespace tidepool::pytorch
