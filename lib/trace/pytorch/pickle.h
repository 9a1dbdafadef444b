// What a pickle of Python holds, where that is plain data: None, bools, numbers, texts, bytes,
// lists, tuples and dicts. Nothing is ever called or built beyond these.
//
// A value is eight bytes, and what it refers to lies in a few arrays of the pickle: two values with
// the same bits are the same object. Containers may hold one another in circles, and one object any
// number of times, so whoever walks through a pickle must bound the walk.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/io/byte_source.h"

namespace tidepool::pytorch {

class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,       // of 60 bits
    kLargeInt,  // of 64 bits
    kUnsigned,  // 2^63 and more
    kFloat,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
  };

  PickleValue() = default;
  // `payload` is a number of 60 bits: the value, or the index of what the kind refers to.
  constexpr PickleValue(Kind kind, std::int64_t payload)
      : bits_(static_cast<std::uint64_t>(payload) << kKindBits | static_cast<std::uint64_t>(kind)) {
  }

  Kind kind() const { return static_cast<Kind>(bits_ & ((1 << kKindBits) - 1)); }
  std::int64_t payload() const { return static_cast<std::int64_t>(bits_) >> kKindBits; }
  std::uint32_t index() const { return static_cast<std::uint32_t>(payload()); }
  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsText() const { return kind() == Kind::kText; }
  bool IsSequence() const { return kind() == Kind::kList || kind() == Kind::kTuple; }
  bool IsDict() const { return kind() == Kind::kDict; }
  friend bool operator==(PickleValue, PickleValue) = default;

 private:
  static constexpr int kKindBits = 4;
  std::uint64_t bits_ = 0;  // None
};
static_assert(sizeof(PickleValue) == 8);

// "a list", as errors show what was found.
const char* KindText(PickleValue value);

class Pickle {
 public:
  // Reads the pickle, of less than 4 GiB, that `source` begins with; what comes after its end is
  // ignored, as Python does. InvalidArgument with "byte N: what is wrong, what was expected".
  // O(bytes) time. Keeps at most 64 MiB, and 16 bytes more for each byte of the pickle and 256 for
  // each of the file, whichever is less: more is an error, before it is there.
  static absl::StatusOr<Pickle> Parse(io::ByteSource& source);

  PickleValue root() const { return root_; }
  // Whether `value` is an integer from -2^63 to 2^63 - 1, and which.
  bool AsInteger(PickleValue value, std::int64_t* integer) const;
  // The same for one from 0 to 2^64 - 1, and for negative ones modulo 2^64.
  bool AsUnsigned(PickleValue value, std::uint64_t* integer) const;
  double Float(PickleValue value) const { return floats_[value.index()]; }
  // Of a text or bytes.
  std::string_view Text(PickleValue value) const {
    const Stretch& text = texts_[value.index()];
    return std::string_view(text_).substr(text.begin, text.size);
  }
  // How many elements a list or tuple has, or twice as many as a dict has entries.
  std::size_t Size(PickleValue value) const { return containers_[value.index()].size; }
  // Calls `visit` with the elements, one stretch of them after the other, until it returns false: a
  // dict's are key, value, key, value, in the order of the file, and no pair is divided. Says
  // whether all were visited.
  template <typename Visit>
  bool VisitElements(PickleValue container, const Visit& visit) const {
    for (std::uint32_t piece = containers_[container.index()].first; piece != kNoPiece;
         piece = pieces_[piece].next) {
      const Stretch& elements = pieces_[piece].elements;
      if (!visit(absl::MakeConstSpan(values_).subspan(elements.begin, elements.size))) return false;
    }
    return true;
  }

  // How many texts and containers there are: their indices are less.
  std::size_t texts() const { return texts_.size(); }
  std::size_t containers() const { return containers_.size(); }
  // How many elements all containers have together.
  std::size_t elements() const { return values_.size(); }

 private:
  friend class PickleMachine;

  static constexpr std::uint32_t kNoPiece = UINT32_MAX;
  struct Stretch {
    std::uint32_t begin;
    std::uint32_t size;
  };
  // The elements of a container come in pieces, because other containers are filled in between.
  struct Piece {
    Stretch elements;  // of the values
    std::uint32_t next;
  };
  struct Container {
    std::uint32_t first = kNoPiece;
    std::uint32_t last = kNoPiece;
    std::uint32_t size = 0;
  };

  Pickle() = default;

  PickleValue root_;
  std::vector<PickleValue> values_;
  std::vector<Piece> pieces_;
  std::vector<Container> containers_;
  std::string text_;            // of all texts and bytes, one after the other
  std::vector<Stretch> texts_;  // of the text
  std::vector<std::uint64_t> integers_;
  std::vector<double> floats_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_H_
