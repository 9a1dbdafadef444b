// SPDX-License-Identifier: Apache-2.0
// Pickle: the contents of a Python pickle of plain data: None, bools, numbers, texts, bytes, lists,
// tuples and dicts. Reading never calls or builds anything else.
//
// A value is four bytes; the data that it refers to lies in a few arrays of the pickle. Two values
// with equal bits are the same object. Dicts with equal keys share them, and lists with equal
// elements share these. Containers may contain one another in circles, and an object may be
// referred to any number of times. So every walk through a pickle must be bounded.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::pytorch {

class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,       // of 28 bits
    kLargeInt,  // of 64 bits
    kUnsigned,  // 2^63 or more
    kFloat,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
  };

  PickleValue() = default;
  // `payload` is a number of 28 bits: the value itself, or an index into an array of the pickle.
  constexpr PickleValue(Kind kind, std::int64_t payload)
      : bits_(static_cast<std::uint32_t>(payload) << kKindBits | static_cast<std::uint32_t>(kind)) {
  }

  Kind kind() const { return static_cast<Kind>(bits_ & ((1 << kKindBits) - 1)); }
  std::int64_t payload() const { return static_cast<std::int32_t>(bits_) >> kKindBits; }
  std::uint32_t bits() const { return bits_; }
  std::uint32_t index() const { return bits_ >> kKindBits; }
  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsText() const { return kind() == Kind::kText; }
  bool IsSequence() const { return kind() == Kind::kList || kind() == Kind::kTuple; }
  bool IsDict() const { return kind() == Kind::kDict; }
  friend bool operator==(PickleValue, PickleValue) = default;

 private:
  static constexpr int kKindBits = 4;
  std::uint32_t bits_ = 0;  // initially None
};
static_assert(sizeof(PickleValue) == 4);

// Returns the kind of a value for errors, such as "a list".
const char* KindText(PickleValue value);

class Pickle {
 public:
  // Reads the pickle at the beginning of `source`, of less than 4 GiB; ignores bytes after its end,
  // as Python does. Returns InvalidArgument with "byte N: error". O(bytes) time. Keeps at most 64
  // MiB plus 16 bytes for each byte of the pickle. For a compressed file, the limit is 64 MiB plus
  // 256 bytes for each byte of the file if that is less. A larger pickle is an error before the
  // memory is used.
  static absl::StatusOr<Pickle> Parse(io::ByteSource& source);

  PickleValue root() const { return root_; }
  // Whether `value` is an integer from -2^63 to 2^63 - 1; returns it in `integer`.
  bool AsInteger(PickleValue value, std::int64_t* integer) const {
    if (value.kind() == PickleValue::Kind::kInt) {
      *integer = value.payload();
      return true;
    }
    if (value.kind() != PickleValue::Kind::kLargeInt) return false;
    *integer = static_cast<std::int64_t>(integers_[value.index()]);
    return true;
  }
  // Whether `value` is an integer from -2^63 to 2^64 - 1; returns it modulo 2^64 in `integer`.
  bool AsUnsigned(PickleValue value, std::uint64_t* integer) const {
    if (value.kind() != PickleValue::Kind::kUnsigned) {
      std::int64_t number = 0;
      const bool is_integer = AsInteger(value, &number);
      if (is_integer) *integer = static_cast<std::uint64_t>(number);
      return is_integer;
    }
    *integer = integers_[value.index()];
    return true;
  }
  double Float(PickleValue value) const { return floats_[value.index()]; }
  // Returns the contents of a text or bytes.
  std::string_view Text(PickleValue value) const {
    const IndexRange& text = texts_[value.index()];
    return std::string_view(text_).substr(text.begin, text.size);
  }
  // Returns the number of elements of a list or tuple, or of entries of a dict.
  std::size_t Size(PickleValue container) const {
    if (containers_[container.index()].what == kInParts) return tails_.at(container.index()).size;
    return OnlyPart(container).size;
  }
  // The entries of a dict: its values, and the number of its keys. Dicts with equal numbers have
  // equal keys in the same order.
  struct Entries {
    std::uint32_t keys;
    absl::Span<const PickleValue> values;
  };
  static constexpr std::uint32_t kNoKeys = UINT32_MAX;
  // Returns the entries of a dict; the number kNoKeys where they lie in several parts.
  Entries EntriesOf(PickleValue dict) const {
    const Container& container = containers_[dict.index()];
    if (container.what == kInParts) return {kNoKeys, {}};
    return {container.what, Values(container.begin, key_sets_[container.what].size)};
  }

  // Calls `visit` with consecutive parts of the elements of a list or tuple until it returns false.
  // Returns whether all elements were visited.
  template <typename Visit>
  bool VisitElements(PickleValue sequence, const Visit& visit) const {
    return VisitParts(sequence,
                      [&](const Part& part) { return visit(Values(part.begin, part.size)); });
  }
  // Calls `visit` with keys and as many values, in the order of the file, until it returns false.
  // Returns whether all entries of the dict were visited.
  template <typename Visit>
  bool VisitEntries(PickleValue dict, const Visit& visit) const {
    return VisitParts(dict, [&](const Part& part) {
      return visit(Values(part.keys, part.size), Values(part.begin, part.size));
    });
  }

  // Returns a number of the elements of a list or tuple: those with equal numbers have equal
  // elements in the same order. Most lists that repeat another have its number.
  std::uint64_t Contents(PickleValue sequence) const {
    const Container& container = containers_[sequence.index()];
    if (container.what == kInParts || container.what == 0)
      return std::uint64_t{sequence.index()} << 32;
    return std::uint64_t{container.begin} << 32 | container.what;
  }
  // Number of texts, and of containers; their indices are smaller.
  std::size_t texts() const { return texts_.size(); }
  std::size_t containers() const { return containers_.size(); }
  // Number of keys and elements that are kept: those that containers share count once.
  std::size_t elements() const { return values_.size(); }

 private:
  friend class PickleMachine;

  static constexpr std::uint32_t kNoPart = UINT32_MAX;
  static constexpr std::uint32_t kInParts = UINT32_MAX;
  struct IndexRange {
    std::uint32_t begin;
    std::uint32_t size;
  };
  struct Container {
    std::uint32_t begin = 0;  // of the elements, or the values of a dict, in values_
    // The number of the elements of a list or tuple, or of the keys of a dict in key_sets_. If it
    // is kInParts, the container has several parts, and `begin` is the number of the first one.
    std::uint32_t what = 0;
  };
  // Part of the elements of a container, or of the entries of a dict. A container has several parts
  // if others are filled in between, and a dict also if it is filled in several steps. Parts may
  // share keys and elements, which never change.
  struct Part {
    std::uint32_t begin = 0;  // of the elements, or the values of a dict, in values_
    std::uint32_t size = 0;   // 0 only in an empty container
    std::uint32_t keys = 0;   // begin of the keys of a dict in values_
    std::uint32_t next = kNoPart;
  };
  // The end of a container of several parts.
  struct Tail {
    std::uint32_t last;  // part
    std::uint32_t size;  // of all parts
  };

  absl::Span<const PickleValue> Values(std::uint32_t begin, std::uint32_t size) const {
    return absl::MakeConstSpan(values_).subspan(begin, size);
  }
  // Returns the part of a container that has one.
  Part OnlyPart(PickleValue value) const {
    const Container& container = containers_[value.index()];
    if (!value.IsDict()) return {container.begin, container.what};
    const IndexRange& keys = key_sets_[container.what];
    return {container.begin, keys.size, keys.begin};
  }
  template <typename Visit>
  bool VisitParts(PickleValue value, const Visit& visit) const {
    const Container& container = containers_[value.index()];
    if (container.what != kInParts) {
      const Part part = OnlyPart(value);
      return part.size == 0 || visit(part);
    }
    for (std::uint32_t number = container.begin; number != kNoPart; number = parts_[number].next) {
      if (!visit(parts_[number])) return false;
    }
    return true;
  }

  Pickle() = default;

  PickleValue root_;
  std::vector<PickleValue> values_;
  std::vector<Container> containers_;
  std::vector<IndexRange> key_sets_ = {{0, 0}};     // keys of dicts, in values_; first those of {}
  std::vector<Part> parts_;                         // of containers of several parts
  absl::flat_hash_map<std::uint32_t, Tail> tails_;  // by container
  std::string text_;                                // all texts and bytes, one after the other
  std::vector<IndexRange> texts_;                   // parts of text_
  std::vector<std::uint64_t> integers_;
  std::vector<double> floats_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
