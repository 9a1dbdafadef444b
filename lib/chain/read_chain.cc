// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a chain: one object with a few numbers and lists of numbers.
#include <rapidjson/reader.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/chain/check_chain.h"
#include "lib/io/byte_source.h"
#include "lib/io/json_events.h"
#include "lib/io/json_input.h"
#include "lib/io/json_number.h"
#include "lib/io/quote.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::chain {
namespace {

std::string NameOf(Key key) { return std::string(KeyName(key)); }

// Parses a whole number; measured sizes are also written with ".0".
bool ParseBytes(std::string_view text, std::int64_t* bytes) {
  if (io::ParseWholeNumber(text, bytes)) return true;
  double number = 0;
  if (!absl::SimpleAtod({text.data(), text.size()}, &number)) return false;
  if (number != std::floor(number) || std::abs(number) > static_cast<double>(kMostGraphBytes)) {
    return false;
  }
  *bytes = static_cast<std::int64_t>(number);
  return true;
}

// The handler of RapidJSON's events. A false result ends the reading; then status() gives the
// reason and line() the line.
class ChainHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, ChainHandler> {
 public:
  explicit ChainHandler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Wrong("null"); }
  bool Bool(bool value) { return Wrong(value ? "true" : "false"); }
  bool String(const char* text, rapidjson::SizeType size, bool copy);
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy);
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  Chain&& Take() { return std::move(chain_); }

 private:
  enum class Place : std::uint8_t { kStart, kChain, kList };

  bool IsList() const { return key_ >= chain::Key::kForwardSeconds; }
  // Whether the key belongs to a list of sizes.
  bool IsBytes() const { return key_ >= chain::Key::kForwardExtra; }
  std::vector<double>& seconds();
  std::vector<std::int64_t>& bytes();
  bool Fail(std::int64_t line, const std::string& what);
  bool Wrong(const std::string& shown);
  bool TakeNumber(std::string_view text);
  bool TakeElement(std::string_view text);
  bool Finish();

  io::JsonInput& input_;
  Chain chain_;
  std::int64_t last_ = 0;  // L
  Place place_ = Place::kStart;
  chain::Key key_ = chain::Key::kLast;
  std::array<std::int64_t, kKeyNames.size()> lines_ = {};  // of keys; 0: not seen
  std::int64_t line_ = 1;
  absl::Status status_;
};

std::vector<double>& ChainHandler::seconds() {
  return key_ == chain::Key::kForwardSeconds ? chain_.forward_seconds : chain_.backward_seconds;
}

std::vector<std::int64_t>& ChainHandler::bytes() {
  switch (key_) {
    case chain::Key::kForwardExtra:
      return chain_.forward_extra;
    case chain::Key::kBackwardExtra:
      return chain_.backward_extra;
    case chain::Key::kX:
      return chain_.x;
    default:
      return chain_.y;
  }
}

bool ChainHandler::Fail(std::int64_t line, const std::string& what) {
  line_ = line;
  status_ = absl::InvalidArgumentError(what);
  return false;
}

bool ChainHandler::Wrong(const std::string& shown) {
  input_.SawToken();
  if (place_ == Place::kStart) {
    return Fail(input_.line(), absl::StrCat(shown, ", expected a chain: an object"));
  }
  const char* expected = place_ == Place::kList ? (IsBytes() ? "whole numbers of bytes in the list"
                                                             : "numbers of seconds in the list")
                         : IsList()             ? "an array of numbers"
                         : key_ == chain::Key::kLink ? "a number of bytes a second"
                                                     : "a whole number";
  return Fail(input_.line(), absl::StrCat(NameOf(key_), " has ", shown, ", expected ", expected));
}

bool ChainHandler::String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  return Wrong(absl::StrCat("the text ", io::Quoted({text, size})));
}

bool ChainHandler::RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view number(text, size);
  const bool is_taken = place_ == Place::kList    ? TakeElement(number)
                        : place_ == Place::kChain ? TakeNumber(number)
                                                  : false;
  return is_taken || Wrong(std::string(number.substr(0, 40)));
}

bool ChainHandler::TakeNumber(std::string_view text) {
  switch (key_) {
    case chain::Key::kLast:
      return io::ParseWholeNumber(text, &last_);
    case chain::Key::kLink:
      return absl::SimpleAtod({text.data(), text.size()}, &chain_.link_bytes_per_second);
    case chain::Key::kMemory:
      return ParseBytes(text, &chain_.memory_bytes);
    default:
      return false;
  }
}

bool ChainHandler::TakeElement(std::string_view text) {
  if (IsBytes()) return ParseBytes(text, &bytes().emplace_back());
  return absl::SimpleAtod({text.data(), text.size()}, &seconds().emplace_back());
}

bool ChainHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  std::size_t at = 0;
  while (at < kKeyNames.size() && kKeyNames[at] != name) ++at;
  if (at == kKeyNames.size()) {
    return Fail(input_.line(),
                absl::StrCat("the unknown key ", io::Quoted(name),
                             " in a chain, expected L, beta, M_gpu, uF, uB, exF, exB, x or y"));
  }
  key_ = static_cast<chain::Key>(at);
  if (lines_[at] != 0) {
    return Fail(input_.line(),
                absl::StrCat("the key ", io::Quoted(name), " occurs twice, expected it once"));
  }
  lines_[at] = input_.line();
  return true;
}

bool ChainHandler::StartObject() {
  if (place_ != Place::kStart) return Wrong("an object");
  input_.SawToken();
  place_ = Place::kChain;
  return true;
}

bool ChainHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i] != 0) continue;
    return Fail(input_.line(), absl::StrCat("a chain without ", std::string(kKeyNames[i]),
                                            ", expected every key"));
  }
  place_ = Place::kStart;
  return Finish();
}

bool ChainHandler::Finish() {
  const std::int64_t line_of_last = lines_[static_cast<std::size_t>(chain::Key::kLast)];
  if (last_ < 0 || last_ >= std::int64_t{1} << 40) {
    return Fail(line_of_last, absl::StrCat("L is ", last_, ", expected 0 or more"));
  }
  const auto fault = FindFault(chain_, static_cast<std::size_t>(last_) + 1);
  if (!fault.has_value()) return true;
  return Fail(lines_[static_cast<std::size_t>(fault->key)], fault->what);
}

bool ChainHandler::StartArray() {
  if (place_ != Place::kChain || !IsList()) return Wrong("an array");
  input_.SawToken();
  place_ = Place::kList;
  return true;
}

bool ChainHandler::EndArray(rapidjson::SizeType /*elements*/) {
  input_.SawToken();
  place_ = Place::kChain;
  return true;
}

absl::StatusOr<Chain> ReadChainFrom(std::unique_ptr<io::ByteSource> source,
                                    const std::string& name) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(std::move(source));
  if (!plain.ok()) return io::AboutFile(name, plain.status());
  io::JsonInput input(**plain);
  ChainHandler handler(input);
  absl::Status status = io::ReadJsonEvents(input, handler, name, "a chain");
  if (!status.ok()) return status;
  return handler.Take();
}

}  // namespace
}  // namespace tidepool::chain

namespace tidepool {

absl::StatusOr<Chain> ReadChain(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path.string(), "a chain");
  if (!file.ok()) return io::AboutFile(path.string(), file.status());
  return chain::ReadChainFrom(*std::move(file), path.string());
}

absl::StatusOr<Chain> ParseChain(std::string_view json, std::string_view name) {
  return chain::ReadChainFrom(io::FromMemory(json), std::string(name));
}

}  // namespace tidepool
