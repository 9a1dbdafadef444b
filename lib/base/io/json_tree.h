// SPDX-License-Identifier: Apache-2.0
// JSON as a tree in which each value knows its line, for files that are read as a whole. Files of
// hundreds of megabytes are read event by event instead (json_events.h).
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_TREE_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/text_numbers.h"

namespace tidepool::io {

enum class JsonKind : std::uint8_t { kNull, kBool, kNumber, kText, kArray, kObject };

class JsonValue;

class JsonTree {
 public:
  static constexpr std::size_t kDeepest = 64;

  struct Options {
    std::string_view expected;  // the file, such as "a chain"
    // Whether the file's object may have the key. Reading ends at another key or at an array, so
    // that a large file of another kind costs nothing. Without a function any value is read.
    bool (*knows)(std::string_view key) = nullptr;
    std::size_t most_values = std::size_t{1} << 28;
  };

  // Reads one value, gzip too. Takes 16 bytes for each value, and the bytes of texts and numbers.
  // O(bytes).
  JsonTree(std::unique_ptr<ByteSource> source, const std::string& name, const Options& options);
  JsonTree(const JsonTree&) = delete;
  JsonTree& operator=(const JsonTree&) = delete;

  // InvalidArgument, with file and line, where the file is no valid JSON or beyond a limit. The
  // tree then has the values before that place.
  const absl::Status& status() const { return status_; }
  bool is_empty() const { return size_ == 0; }
  JsonValue root() const;  // of a tree that is not empty

 private:
  friend class JsonValue;
  class Maker;

  // Values lie in the order of the file, so those below a value follow it.
  struct Node {
    std::uint32_t at = 0;    // where its text begins; of arrays and objects, the node after them
    std::uint32_t name = 0;  // number of the key; 0 for none
    std::uint32_t line = 0;
    std::uint32_t kind : 3 = 0;
    std::uint32_t is_whole : 1 = 0;  // its end was read
    // Bytes of a text or number, 0 or 1 for false or true, lines that an array or object spans
    std::uint32_t size : 28 = 0;
  };
  static constexpr std::uint32_t kMostSize = (std::uint32_t{1} << 28) - 1;
  // Values lie in chunks, which never move.
  static constexpr std::size_t kChunkShift = 12;
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkShift;

  Node& At(std::size_t at) { return chunks_[at >> kChunkShift][at % kChunk]; }
  const Node& At(std::size_t at) const { return chunks_[at >> kChunkShift][at % kChunk]; }

  std::string name_;
  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::size_t size_ = 0;
  std::string texts_;
  TextNumbers names_;
  absl::Status status_;
};

// A value of a tree: valid as long as the tree. Errors are InvalidArgument with
// `FILE:LINE: fault, expectation`.
class JsonValue {
 public:
  JsonValue(const JsonTree& tree, std::size_t at) : tree_(&tree), at_(at) {}

  JsonKind kind() const;
  // Returns the characters of a text; a number, true, false and null as they are written.
  std::string_view text() const;
  // Returns the key of a member of an object, and "" for other values.
  std::string_view name() const;
  // Return the lines in which the value begins and ends.
  std::int64_t line() const;
  std::int64_t last_line() const;

  // Each returns false for a value of another kind, and may then change a number. A whole number
  // has no point and no exponent.
  bool To(std::string* text) const;
  bool To(std::int64_t* whole) const;
  bool To(double* number) const;
  bool To(bool* is) const;

  // Calls visit(value) for each element or member, in the order of the file, until a visit returns
  // an error. In a file that breaks within this value, the error of the break comes after the
  // visits. O(values below).
  template <typename Visit>
  absl::Status ForEach(Visit visit) const;
  // Returns the first member called `name`. O(members).
  std::optional<JsonValue> Find(std::string_view name) const;

  // Returns the value as errors show it, at most 40 bytes of it: "an array", "the text 'x'", "7".
  std::string Shown() const;
  absl::Status Error(const std::string& fault) const;
  absl::Status ErrorAtEnd(const std::string& fault) const;  // in its last line

 private:
  const JsonTree::Node& node() const;
  std::string_view PlainText() const;  // of null, true and false
  std::size_t end() const;             // of the values below; its own place if it has none
  std::size_t after() const { return std::max(end(), at_ + 1); }

  const JsonTree* tree_;
  std::size_t at_;
};

inline JsonValue JsonTree::root() const { return {*this, 0}; }

inline const JsonTree::Node& JsonValue::node() const { return tree_->At(at_); }

inline JsonKind JsonValue::kind() const { return static_cast<JsonKind>(node().kind); }

inline std::string_view JsonValue::text() const {
  const bool has_text = kind() == JsonKind::kNumber || kind() == JsonKind::kText;
  if (!has_text) return PlainText();
  return {tree_->texts_.data() + node().at, node().size};
}

inline std::string_view JsonValue::name() const { return tree_->names_[node().name]; }

inline std::int64_t JsonValue::line() const { return node().line; }

inline std::int64_t JsonValue::last_line() const {
  return line() + (end() > at_ ? std::int64_t{node().size} : 0);
}

inline std::size_t JsonValue::end() const {
  return kind() < JsonKind::kArray ? at_ : std::size_t{node().at};
}

template <typename Visit>
absl::Status JsonValue::ForEach(Visit visit) const {
  for (std::size_t at = at_ + 1; at < end();) {
    const JsonValue value(*tree_, at);
    if (absl::Status status = visit(value); !status.ok()) return status;
    at = value.after();
  }
  return node().is_whole != 0 ? absl::OkStatus() : tree_->status_;
}

// Reads a file and returns the result of `read(value)`, a StatusOr. In a file that breaks, `read`
// sees the values before that place, so that the first fault in the file is the one in the error.
template <typename Read>
std::invoke_result_t<Read, const JsonValue&> ReadJson(std::unique_ptr<ByteSource> source,
                                                      const std::string& name,
                                                      const JsonTree::Options& options, Read read) {
  const JsonTree tree(std::move(source), name, options);
  if (tree.is_empty()) return tree.status();
  auto result = read(tree.root());
  if (!result.ok() || tree.status().ok()) return result;
  return tree.status();
}

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_TREE_H_
