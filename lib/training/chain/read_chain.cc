// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a chain: one object with a few numbers and lists of numbers.
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

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_object.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "lib/training/chain/check_chain.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/graph.h"

namespace tidepool::chain {
namespace {

using io::JsonValue;

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

// Takes a whole number; measured sizes are also written with ".0".
bool ToBytes(const JsonValue& value, std::int64_t* bytes) {
  if (value.To(bytes)) return true;
  double number = 0;
  if (!value.To(&number) || number != std::floor(number) ||
      std::abs(number) > static_cast<double>(kMostGraphBytes)) {
    return false;
  }
  *bytes = static_cast<std::int64_t>(number);
  return true;
}

bool IsList(Key key) { return key >= Key::kForwardSeconds; }
// Whether the key belongs to a list of whole numbers.
bool IsBytes(Key key) { return key >= Key::kForwardExtra; }

std::string Expected(Key key, const JsonValue& value) {
  if (IsList(key) && !value.name().empty()) return "an array of numbers";
  switch (key) {
    case Key::kLast:
      return "a whole number, 0 or more";
    case Key::kLink:
      return "a number of bytes a second";
    case Key::kMemory:
      return "a whole number of bytes from 0 to 2^60";
    case Key::kRunsOnce:
      return "whole numbers in the list";
    default:
      break;
  }
  return IsBytes(key) ? "whole numbers of bytes from 0 to 2^50 in the list"
                      : "numbers of seconds in the list";
}

// Reads the members of a chain, in any order.
class ChainReader {
 public:
  explicit ChainReader(const JsonValue& root) : root_(root) {}

  absl::StatusOr<Chain> Read();

 private:
  const KeyNames& names() const { return form_ == Form::kRotor ? kRotorNames : kKeyNames; }
  bool Has(Key key) const { return members_[static_cast<std::size_t>(key)].has_value(); }
  std::vector<double>& Seconds(Key key);
  std::vector<std::int64_t>& Bytes(Key key);
  absl::Status Wrong(Key key, const JsonValue& value) const;
  absl::Status Fail(Key key, const std::string& what) const;
  std::optional<Key> FindKey(std::string_view name);
  absl::Status Take(const JsonValue& member);
  absl::Status TakeValue(Key key, const JsonValue& member);
  absl::Status TakeElement(Key key, const JsonValue& value);
  absl::Status CheckKeys() const;
  absl::Status CheckRotorLengths() const;
  absl::Status CheckRotorExtra() const;
  absl::Status FinishRotor();
  absl::Status Check(std::size_t operations) const;

  const JsonValue root_;
  Chain chain_;
  std::int64_t last_ = 0;  // L
  std::vector<std::int64_t> once_;
  Form form_ = Form::kUnknown;
  std::array<std::optional<JsonValue>, kKeys> members_ = {};
};

std::vector<double>& ChainReader::Seconds(Key key) {
  return key == Key::kForwardSeconds ? chain_.forward_seconds : chain_.backward_seconds;
}

std::vector<std::int64_t>& ChainReader::Bytes(Key key) {
  switch (key) {
    case Key::kForwardExtra:
      return chain_.forward_extra;
    case Key::kBackwardExtra:
      return chain_.backward_extra;
    case Key::kX:
      return chain_.x;
    case Key::kY:
      return chain_.y;
    case Key::kOutput:
      return chain_.output;
    case Key::kOutputExtra:
      return chain_.output_extra;
    default:
      return once_;
  }
}

absl::Status ChainReader::Wrong(Key key, const JsonValue& value) const {
  return value.Error(absl::StrCat(NameOf(key, names()), " has ", value.Shown(), ", expected ",
                                  Expected(key, value)));
}

// Returns a fault of a whole member.
absl::Status ChainReader::Fail(Key key, const std::string& what) const {
  return members_[static_cast<std::size_t>(key)].value_or(root_).Error(what);
}

// Returns the key of a name, and remembers the form that it tells.
std::optional<Key> ChainReader::FindKey(std::string_view name) {
  const std::optional<Key> paper = FindName(name, kKeyNames);
  const std::optional<Key> rotor = FindRotorName(name);
  if (form_ == Form::kUnknown && paper.has_value() != rotor.has_value()) {
    form_ = paper.has_value() ? Form::kPaper : Form::kRotor;
  }
  return form_ == Form::kRotor ? rotor : paper;
}

absl::Status ChainReader::Take(const JsonValue& member) {
  const std::optional<Key> key = FindKey(member.name());
  if (!key.has_value()) {
    return io::UnknownKey(
        member, "a chain",
        form_ == Form::kRotor
            ? "length, beta, M_gpu, fweight, bweight, cweight, cbweight, fwd_mem_tmp or bwd_mem_tmp"
            : "L, beta, M_gpu, uF, uB, exF, exB, x, y, o, exO or once");
  }
  if (Has(*key)) return io::RepeatedKey(member, "a chain");
  members_[static_cast<std::size_t>(*key)] = member;
  return TakeValue(*key, member);
}

absl::Status ChainReader::TakeValue(Key key, const JsonValue& member) {
  if (IsList(key)) {
    const absl::StatusOr<bool> is_taken =
        io::TakeArray(member, [&](const JsonValue& element) { return TakeElement(key, element); });
    if (!is_taken.ok()) return is_taken.status();
    return *is_taken ? absl::OkStatus() : Wrong(key, member);
  }
  const bool is_taken = key == Key::kLast   ? member.To(&last_)
                        : key == Key::kLink ? member.To(&chain_.link_bytes_per_second)
                                            : ToBytes(member, &chain_.memory_bytes);
  return is_taken ? absl::OkStatus() : Wrong(key, member);
}

absl::Status ChainReader::TakeElement(Key key, const JsonValue& value) {
  const bool is_taken = IsBytes(key) ? ToBytes(value, &Bytes(key).emplace_back())
                                     : value.To(&Seconds(key).emplace_back());
  return is_taken ? absl::OkStatus() : Wrong(key, value);
}

absl::Status ChainReader::CheckKeys() const {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Key::kOutput); ++i) {
    const bool may_lack = form_ == Form::kRotor && !IsList(static_cast<Key>(i));
    if (members_[i].has_value() || may_lack) continue;
    return io::MissingKeys(root_, "a chain", std::string(names()[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Chain> ChainReader::Read() {
  if (root_.kind() != io::JsonKind::kObject) {
    return root_.Error(absl::StrCat(root_.Shown(), ", expected a chain: an object"));
  }
  absl::Status status = root_.ForEach([this](const JsonValue& member) { return Take(member); });
  if (status.ok()) status = CheckKeys();
  if (!status.ok()) return status;
  if (form_ == Form::kRotor) {
    status = FinishRotor();
  } else if (last_ < 0 || last_ >= std::int64_t{1} << 40) {
    status = Fail(Key::kLast, absl::StrCat("L is ", last_, ", expected 0 or more"));
  } else {
    // A negative number becomes a huge one, and that is refused.
    chain_.runs_once.assign(once_.begin(), once_.end());
    status = Check(static_cast<std::size_t>(last_) + 1);
  }
  if (!status.ok()) return status;
  return std::move(chain_);
}

absl::Status ChainReader::CheckRotorLengths() const {
  const auto length = static_cast<std::int64_t>(chain_.forward_seconds.size());
  const std::tuple<Key, std::size_t, std::int64_t> lists[] = {
      {Key::kForwardSeconds, chain_.forward_seconds.size(), Has(Key::kLast) ? last_ : length},
      {Key::kBackwardSeconds, chain_.backward_seconds.size(), length + 1},
      {Key::kY, chain_.y.size(), length + 1},
      {Key::kX, chain_.x.size(), length + 1},
      {Key::kForwardExtra, chain_.forward_extra.size(), length},
      {Key::kBackwardExtra, chain_.backward_extra.size(), length + 1}};
  for (const auto& [key, size, expected] : lists) {
    if (static_cast<std::int64_t>(size) == expected) continue;
    return Fail(key,
                absl::StrCat(NameOf(key, names()), " has ", size, " numbers, expected ", expected));
  }
  return absl::OkStatus();
}

// Gradients that stay are no part of rotor's chains.
absl::Status ChainReader::CheckRotorExtra() const {
  const std::vector<std::int64_t>& extra = chain_.backward_extra;
  for (std::size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] >= 0) continue;
    return Fail(Key::kBackwardExtra, absl::StrCat(NameOf(Key::kBackwardExtra, names()), "[", i,
                                                  "] is ", extra[i], " bytes, expected 0 to 2^50"));
  }
  return absl::OkStatus();
}

// The loss is the last operation. It has no forward task of its own.
absl::Status ChainReader::FinishRotor() {
  if (absl::Status status = CheckRotorLengths(); !status.ok()) return status;
  if (absl::Status status = CheckRotorExtra(); !status.ok()) return status;
  if (!Has(Key::kLink)) chain_.link_bytes_per_second = kUsualLinkBytesPerSecond;
  if (!Has(Key::kMemory)) chain_.memory_bytes = kMostGraphBytes;
  chain_.forward_seconds.push_back(0);
  chain_.forward_extra.push_back(0);
  chain_.x.push_back(0);
  chain_.y.push_back(0);
  const std::size_t operations = chain_.forward_seconds.size();
  if (absl::Status status = Check(operations); !status.ok()) return status;
  // A forward operation that saves keeps its output too.
  for (std::size_t i = 0; i <= operations; ++i) chain_.x[i] = std::max(chain_.x[i], chain_.y[i]);
  chain_.x[0] = chain_.y[0];
  if (chain_.x != chain_.y) chain_.output = chain_.y;
  return Check(operations);
}

absl::Status ChainReader::Check(std::size_t operations) const {
  const auto fault = FindFault(chain_, operations, names());
  return fault.has_value() ? Fail(fault->key, fault->what) : absl::OkStatus();
}

absl::StatusOr<Chain> ReadChainFrom(std::unique_ptr<io::ByteSource> source,
                                    const std::string& name) {
  return io::ReadJson(std::move(source), name, {"a chain", IsChainKey},
                      [](const JsonValue& root) { return ChainReader(root).Read(); });
}

}  // namespace

bool IsChainKey(std::string_view name) {
  return FindName(name, kKeyNames).has_value() || FindRotorName(name).has_value();
}

}  // namespace tidepool::chain

namespace tidepool {

absl::StatusOr<Chain> ReadChain(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path.string(), "a chain");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  return chain::ReadChainFrom(*std::move(file), path.string());
}

absl::StatusOr<Chain> ParseChain(std::string_view json, std::string_view name) {
  return chain::ReadChainFrom(io::FromMemory(json), std::string(name));
}

}  // namespace tidepool
