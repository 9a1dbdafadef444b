// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a chain: one object with a few numbers and lists of numbers.
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

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

// The two forms of a chain. A key of only one of them tells which one a file has.
enum class Form : std::uint8_t { kUnknown, kPaper, kRotor };

// Other names of rotor's lists: of the arguments of its constructor, and of its C code.
constexpr std::pair<std::string_view, Key> kRotorAliases[] = {{"fw", Key::kForwardSeconds},
                                                              {"bw", Key::kBackwardSeconds},
                                                              {"cw", Key::kY},
                                                              {"cbw", Key::kX},
                                                              {"ftmp", Key::kForwardExtra},
                                                              {"fwd_tmp", Key::kForwardExtra},
                                                              {"btmp", Key::kBackwardExtra},
                                                              {"bwd_tmp", Key::kBackwardExtra}};

std::optional<Key> FindName(std::string_view name, const KeyNames& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end() || name.empty()) return std::nullopt;
  return static_cast<Key>(found - names.begin());
}

std::optional<Key> FindRotorName(std::string_view name) {
  for (const auto& [alias, key] : kRotorAliases) {
    if (alias == name) return key;
  }
  return FindName(name, kRotorNames);
}

// The rate of a link that a file does not name.
constexpr double kUsualLinkBytesPerSecond = 12e9;

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
  // Whether the key belongs to a list of whole numbers.
  bool IsBytes() const { return key_ >= chain::Key::kForwardExtra; }
  const KeyNames& names() const { return form_ == Form::kRotor ? kRotorNames : kKeyNames; }
  std::string Name(chain::Key key) const { return NameOf(key, names()); }
  std::int64_t LineOf(chain::Key key) const { return lines_[static_cast<std::size_t>(key)]; }
  std::vector<double>& seconds();
  std::vector<std::int64_t>& bytes();
  bool Fail(std::int64_t line, const std::string& what);
  bool Wrong(const std::string& shown);
  const char* Expected() const;
  bool TakeNumber(std::string_view text);
  bool TakeElement(std::string_view text);
  std::optional<chain::Key> FindKey(std::string_view name);
  bool HasAllKeys();
  bool HasRotorLengths();
  bool FinishRotor();
  bool Finish(std::size_t operations);

  io::JsonInput& input_;
  Chain chain_;
  std::int64_t last_ = 0;  // L
  std::vector<std::int64_t> once_;
  Form form_ = Form::kUnknown;
  Place place_ = Place::kStart;
  chain::Key key_ = chain::Key::kLast;
  std::array<std::int64_t, kKeys> lines_ = {};  // of keys; 0: not seen
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
    case chain::Key::kY:
      return chain_.y;
    case chain::Key::kOutput:
      return chain_.output;
    case chain::Key::kOutputExtra:
      return chain_.output_extra;
    default:
      return once_;
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
  return Fail(input_.line(), absl::StrCat(Name(key_), " has ", shown, ", expected ", Expected()));
}

const char* ChainHandler::Expected() const {
  if (place_ != Place::kList && IsList()) return "an array of numbers";
  switch (key_) {
    case chain::Key::kLast:
      return "a whole number, 0 or more";
    case chain::Key::kLink:
      return "a number of bytes a second";
    case chain::Key::kMemory:
      return "a whole number of bytes from 0 to 2^60";
    case chain::Key::kRunsOnce:
      return "whole numbers in the list";
    default:
      break;
  }
  return IsBytes() ? "whole numbers of bytes from 0 to 2^50 in the list"
                   : "numbers of seconds in the list";
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

// Returns the key of a name, and remembers the form that it tells.
std::optional<chain::Key> ChainHandler::FindKey(std::string_view name) {
  const std::optional<chain::Key> paper = FindName(name, kKeyNames);
  const std::optional<chain::Key> rotor = FindRotorName(name);
  if (form_ == Form::kUnknown && paper.has_value() != rotor.has_value()) {
    form_ = paper.has_value() ? Form::kPaper : Form::kRotor;
  }
  return form_ == Form::kRotor ? rotor : paper;
}

bool ChainHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  const std::optional<chain::Key> key = FindKey(name);
  if (!key.has_value()) {
    const char* expected =
        form_ == Form::kRotor
            ? "length, beta, M_gpu, fweight, bweight, cweight, cbweight, fwd_mem_tmp or bwd_mem_tmp"
            : "L, beta, M_gpu, uF, uB, exF, exB, x, y, o, exO or once";
    return Fail(input_.line(), absl::StrCat("the unknown key ", io::Quoted(name),
                                            " in a chain, expected ", expected));
  }
  key_ = *key;
  std::int64_t& line = lines_[static_cast<std::size_t>(key_)];
  if (line != 0) {
    return Fail(input_.line(),
                absl::StrCat("the key ", io::Quoted(name), " occurs twice, expected it once"));
  }
  line = input_.line();
  return true;
}

bool ChainHandler::StartObject() {
  if (place_ != Place::kStart) return Wrong("an object");
  input_.SawToken();
  place_ = Place::kChain;
  return true;
}

bool ChainHandler::HasAllKeys() {
  for (std::size_t i = 0; i < static_cast<std::size_t>(chain::Key::kOutput); ++i) {
    const bool may_lack =
        form_ == Form::kRotor && i < static_cast<std::size_t>(chain::Key::kForwardSeconds);
    if (lines_[i] != 0 || may_lack) continue;
    return Fail(input_.line(),
                absl::StrCat("a chain without ", std::string(names()[i]), ", expected every key"));
  }
  return true;
}

bool ChainHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  place_ = Place::kStart;
  if (!HasAllKeys()) return false;
  if (form_ == Form::kRotor) return FinishRotor();
  if (last_ < 0 || last_ >= std::int64_t{1} << 40) {
    return Fail(LineOf(chain::Key::kLast), absl::StrCat("L is ", last_, ", expected 0 or more"));
  }
  // A negative number becomes a huge one, and that is refused.
  chain_.runs_once.assign(once_.begin(), once_.end());
  return Finish(static_cast<std::size_t>(last_) + 1);
}

bool ChainHandler::HasRotorLengths() {
  const auto length = static_cast<std::int64_t>(chain_.forward_seconds.size());
  const std::tuple<chain::Key, std::size_t, std::int64_t> lists[] = {
      {chain::Key::kForwardSeconds, chain_.forward_seconds.size(),
       LineOf(chain::Key::kLast) == 0 ? length : last_},
      {chain::Key::kBackwardSeconds, chain_.backward_seconds.size(), length + 1},
      {chain::Key::kY, chain_.y.size(), length + 1},
      {chain::Key::kX, chain_.x.size(), length + 1},
      {chain::Key::kForwardExtra, chain_.forward_extra.size(), length},
      {chain::Key::kBackwardExtra, chain_.backward_extra.size(), length + 1}};
  for (const auto& [key, size, expected] : lists) {
    if (static_cast<std::int64_t>(size) == expected) continue;
    return Fail(LineOf(key),
                absl::StrCat(Name(key), " has ", size, " numbers, expected ", expected));
  }
  return true;
}

// The loss is the last operation. It has no forward task of its own.
bool ChainHandler::FinishRotor() {
  if (!HasRotorLengths()) return false;
  if (LineOf(chain::Key::kLink) == 0) chain_.link_bytes_per_second = kUsualLinkBytesPerSecond;
  if (LineOf(chain::Key::kMemory) == 0) chain_.memory_bytes = kMostGraphBytes;
  chain_.forward_seconds.push_back(0);
  chain_.forward_extra.push_back(0);
  chain_.x.push_back(0);
  chain_.y.push_back(0);
  const std::size_t operations = chain_.forward_seconds.size();
  if (!Finish(operations)) return false;
  // A forward operation that saves keeps its output too.
  for (std::size_t i = 0; i <= operations; ++i) chain_.x[i] = std::max(chain_.x[i], chain_.y[i]);
  chain_.x[0] = chain_.y[0];
  if (chain_.x != chain_.y) chain_.output = chain_.y;
  return Finish(operations);
}

bool ChainHandler::Finish(std::size_t operations) {
  const auto fault = FindFault(chain_, operations, names());
  return !fault.has_value() || Fail(LineOf(fault->key), fault->what);
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

bool IsChainKey(std::string_view name) {
  return FindName(name, kKeyNames).has_value() || FindRotorName(name).has_value();
}

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
