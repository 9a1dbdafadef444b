// SPDX-License-Identifier: Apache-2.0
// Makes trees of the events of RapidJSON's reader.
#include "lib/base/io/json_tree.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/json_events.h"
#include "lib/base/io/json_number.h"
#include "lib/base/text/quote.h"

namespace tidepool::io {

// The handler of the events. A false result ends the reading; then status() gives the reason and
// line() the line.
class JsonTree::Maker : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Maker> {
 public:
  Maker(JsonInput& input, const Options& options, JsonTree& tree)
      : input_(input), options_(options), tree_(tree) {
    tree.names_.Number("");
  }

  bool Null() { return Add(JsonKind::kNull); }
  bool Bool(bool value) { return Add(JsonKind::kBool, 0, value ? 1 : 0); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return AddText(JsonKind::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return AddText(JsonKind::kText, {text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    input_.SawToken();
    const std::string_view key(text, size);
    key_ = tree_.names_.Number(key);
    if (open_.size() > 1 || options_.knows == nullptr || options_.knows(key)) return true;
    return Add(JsonKind::kNull) && Fail(absl::StrCat("the unknown key ", text::Quoted(key)));
  }
  bool StartObject() { return Open(JsonKind::kObject); }
  bool EndObject(rapidjson::SizeType /*members*/) { return Close(); }
  bool StartArray() {
    const bool is_other = open_.empty() && options_.knows != nullptr;
    return Open(JsonKind::kArray) && (!is_other || Fail("an array"));
  }
  bool EndArray(rapidjson::SizeType /*elements*/) { return Close(); }

  // Ends the arrays and objects that a break leaves open.
  void Finish() {
    for (const std::size_t at : open_) tree_.At(at).at = Next();
  }

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }

 private:
  std::uint32_t Next() const { return static_cast<std::uint32_t>(tree_.size_); }
  std::uint32_t Line() {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(input_.line(), kMost));
  }

  bool Fail(const std::string& fault) {
    line_ = input_.line();
    status_ = absl::InvalidArgumentError(
        absl::StrCat(fault, ", expected ", std::string(options_.expected)));
    return false;
  }

  bool Add(JsonKind kind, std::size_t at = 0, std::size_t size = 0) {
    input_.SawToken();
    if (tree_.size_ == options_.most_values) {
      return Fail(absl::StrCat("more than ", options_.most_values, " values"));
    }
    if (tree_.size_ % kChunk == 0) {
      tree_.chunks_.push_back(std::make_unique_for_overwrite<Node[]>(kChunk));
    }
    tree_.At(tree_.size_++) = {.at = static_cast<std::uint32_t>(at),
                               .name = key_,
                               .line = Line(),
                               .kind = static_cast<std::uint32_t>(kind) & 7,
                               .is_whole = 1,
                               .size = static_cast<std::uint32_t>(size) & kMostSize};
    key_ = 0;
    return true;
  }

  bool AddText(JsonKind kind, std::string_view text) {
    const std::size_t at = tree_.texts_.size();
    if (at + text.size() > std::numeric_limits<std::uint32_t>::max()) {
      return Fail("more than 4 GiB of texts and numbers");
    }
    if (!Add(kind, at, text.size())) return false;
    tree_.texts_ += text;
    return true;
  }

  bool Open(JsonKind kind) {
    if (open_.size() == kDeepest) {
      return Fail(absl::StrCat("values nested more than ", kDeepest, " levels deep"));
    }
    if (!Add(kind)) return false;
    open_.push_back(tree_.size_ - 1);
    tree_.At(open_.back()).is_whole = 0;
    return true;
  }

  bool Close() {
    input_.SawToken();
    Node& node = tree_.At(open_.back());
    node.at = Next();
    node.size = std::min(Line() - node.line, kMostSize) & kMostSize;
    node.is_whole = 1;
    open_.pop_back();
    return true;
  }

  JsonInput& input_;
  const Options& options_;
  JsonTree& tree_;
  std::uint32_t key_ = 0;  // of the next value
  std::vector<std::size_t> open_;
  std::int64_t line_ = 1;
  absl::Status status_;
};

JsonTree::JsonTree(std::unique_ptr<ByteSource> source, const std::string& name,
                   const Options& options)
    : name_(name) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> plain = Uncompressed(std::move(source));
  if (!plain.ok()) {
    status_ = text::AboutFile(name, plain.status());
    return;
  }
  JsonInput input(**plain);
  Maker maker(input, options, *this);
  status_ = ReadJsonEvents(input, maker, name, options.expected);
  maker.Finish();
}

std::string_view JsonValue::PlainText() const {
  if (kind() == JsonKind::kNull) return "null";
  if (kind() != JsonKind::kBool) return "";
  return node().size != 0 ? "true" : "false";
}

bool JsonValue::To(std::string* text) const {
  if (kind() != JsonKind::kText) return false;
  text->assign(this->text());
  return true;
}

bool JsonValue::To(std::int64_t* whole) const {
  return kind() == JsonKind::kNumber && ParseWholeNumber(text(), whole);
}

bool JsonValue::To(double* number) const {
  const std::string_view digits = text();
  return kind() == JsonKind::kNumber && absl::SimpleAtod({digits.data(), digits.size()}, number);
}

bool JsonValue::To(bool* is) const {
  if (kind() != JsonKind::kBool) return false;
  *is = node().size != 0;
  return true;
}

std::optional<JsonValue> JsonValue::Find(std::string_view name) const {
  for (std::size_t at = at_ + 1; at < end();) {
    const JsonValue value(*tree_, at);
    if (value.name() == name) return value;
    at = value.after();
  }
  return std::nullopt;
}

std::string JsonValue::Shown() const {
  switch (kind()) {
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kText:
      return absl::StrCat("the text ", text::Quoted(text()));
    default:
      return std::string(text().substr(0, 40));
  }
}

absl::Status JsonValue::Error(const std::string& fault) const {
  return text::AboutLine(tree_->name_, line(), absl::InvalidArgumentError(fault));
}

absl::Status JsonValue::ErrorAtEnd(const std::string& fault) const {
  return text::AboutLine(tree_->name_, last_line(), absl::InvalidArgumentError(fault));
}

}  // namespace tidepool::io
