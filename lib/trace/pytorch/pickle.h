// SPDX-License-Identifier: Apache-2.0
// Pickle: the contents of a Python pickle of plain data: None, bools, numbers, texts, bytes, lists,
// tuples and dicts. Reading never calls or builds anything else.
//
// A value is eight bytes; the data that it refers to lies in a few arrays of the pickle. Two values
// with equal bits are the same object. Containers may contain one another in circles, and an object
// may be referred to any number of times. So every walk through a pickle must be bounded.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::pytorch {

class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,       // of 60 bits
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
  // `payload` is a number of 60 bits: the value itself, or an index into an array of the pickle.
  constexpr PickleValue(Kind kind, std::int64_t payload)
      : bits_(static_cast<std::uint64_t>(payload) << kKindBits | static_cast<std::uint64_t>(kind)) {
  }

  Kind kind() const { return static_cast<Kind>(bits_ & ((1 << kKindBits) - 1)); }
  std::int64_t payload() const { return static_cast<std::int64_t>(bits_) >> kKindBits; }
  std::uint64_t bits() const { return bits_; }
  std::uint32_t index() const { return static_cast<std::uint32_t>(payload()); }
  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsText() const { return kind() == Kind::kText; }
  bool IsSequence() const { return kind() == Kind::kList || kind() == Kind::kTuple; }
  bool IsDict() const { return kind() == Kind::kDict; }
  friend bool operator==(PickleValue, PickleValue) = default;

 private:
  static constexpr int kKindBits = 4;
  std::uint64_t bits_ = 0;  // initially None
};
static_assert(sizeof(PickleValue) == 8);

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
  bool AsInteger(PickleValue value, std::int64_t* integer) const;
  // Whether `value` is an integer from -2^63 to 2^64 - 1; returns it modulo 2^64 in `integer`.
  bool AsUnsigned(PickleValue value, std::uint64_t* integer) const;
  double Float(PickleValue value) const { return floats_[value.index()]; }
  // Returns the contents of a text or bytes.
  std::string_view Text(PickleValue value) const {
    const IndexRange& text = texts_[value.index()];
    return std::string_view(text_).substr(text.begin, text.size);
  }
  // Returns the number of elements of a list or tuple, or twice the number of entries of a dict.
  std::size_t Size(PickleValue value) const { return containers_[value.index()].size; }
  // Calls `visit` with consecutive parts of the elements until it returns false. Elements of a dict
  // are key, value, key, value, in the order of the file, and no pair is divided. Returns whether
  // all elements were visited.
  template <typename Visit>
  bool VisitElements(PickleValue container, const Visit& visit) const {
    for (std::uint32_t part = containers_[container.index()].first; part != kNoPart;
         part = parts_[part].next) {
      const IndexRange& elements = parts_[part].elements;
      if (!visit(absl::MakeConstSpan(values_).subspan(elements.begin, elements.size))) return false;
    }
    return true;
  }

  // Returns a number of the elements of a container: containers with equal numbers have equal
  // elements in the same order. Most lists that repeat another have its number.
  std::uint64_t Contents(PickleValue container) const {
    const Container& of = containers_[container.index()];
    if (of.first != of.last || of.size == 0) return std::uint64_t{container.index()} << 32;
    const IndexRange& elements = parts_[of.first].elements;
    return std::uint64_t{elements.begin} << 32 | elements.size;
  }
  // Number of texts, and of containers; their indices are smaller.
  std::size_t texts() const { return texts_.size(); }
  std::size_t containers() const { return containers_.size(); }
  // Number of elements that are kept: those that lists share count once.
  std::size_t elements() const { return values_.size(); }

 private:
  friend class PickleMachine;

  static constexpr std::uint32_t kNoPart = UINT32_MAX;
  struct IndexRange {
    std::uint32_t begin;
    std::uint32_t size;
  };
  // Part of the elements of a container. Containers have several parts if others are filled in
  // between. Parts of several lists may share elements, which never change.
  struct Part {
    IndexRange elements;  // part of values_
    std::uint32_t next;
  };
  struct Container {
    std::uint32_t first = kNoPart;
    std::uint32_t last = kNoPart;
    std::uint32_t size = 0;
  };

  Pickle() = default;

  PickleValue root_;
  std::vector<PickleValue> values_;
  std::vector<Part> parts_;
  std::vector<Container> containers_;
  std::string text_;               // all texts and bytes, one after the other
  std::vector<IndexRange> texts_;  // parts of text_
  std::vector<std::uint64_t> integers_;
  std::vector<double> floats_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
