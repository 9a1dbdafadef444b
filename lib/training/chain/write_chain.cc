// SPDX-License-Identifier: Apache-2.0
// Writes chains: each list has a line of its own, so that line numbers in errors are useful.
// Chains of rotor too.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/chain/check_chain.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/chain.h"

namespace tidepool {
namespace {

using chain::Key;

// Appends the shortest text that is read as the same number.
template <typename Number>
void AppendNumber(Number number, std::string& json) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  json.append(text.data(), end);
}

// The text of one chain, with these names of keys.
class ChainText {
 public:
  explicit ChainText(const chain::KeyNames& names) : names_(names) {}

  template <typename Number>
  void Add(Key key, Number number) {
    AddKey(key);
    AppendNumber(number, json_);
  }
  template <typename Number>
  void Add(Key key, const std::vector<Number>& list);
  std::string Finish() { return std::move(json_ += "}\n"); }

 private:
  void AddKey(Key key) {
    absl::StrAppend(&json_, json_.empty() ? "{" : ",\n ", "\"", chain::NameOf(key, names_), "\": ");
  }

  const chain::KeyNames& names_;
  std::string json_;
};

template <typename Number>
void ChainText::Add(Key key, const std::vector<Number>& list) {
  AddKey(key);
  json_ += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) json_ += ", ";
    AppendNumber(list[i], json_);
  }
  json_ += ']';
}

// Returns the text of the keys that both forms have.
ChainText Start(const Chain& chain, std::size_t last, const chain::KeyNames& names) {
  ChainText text(names);
  text.Add(Key::kLast, last);
  text.Add(Key::kLink, chain.link_bytes_per_second);
  text.Add(Key::kMemory, chain.memory_bytes);
  text.Add(Key::kForwardSeconds, chain.forward_seconds);
  text.Add(Key::kBackwardSeconds, chain.backward_seconds);
  text.Add(Key::kForwardExtra, chain.forward_extra);
  text.Add(Key::kBackwardExtra, chain.backward_extra);
  text.Add(Key::kX, chain.x);
  text.Add(Key::kY, chain.y);
  return text;
}

// Whether the last operation is one as rotor's: the loss, which has no forward task of its own.
bool EndsWithLoss(const Chain& chain) {
  return chain.forward_seconds.back() == 0 && chain.forward_extra.back() == 0 &&
         chain.x.back() == 0 && chain.y.back() == 0 &&
         (chain.output_extra.empty() || chain.output_extra.back() == 0);
}

void RaiseTo(const std::vector<std::int64_t>& least, std::vector<std::int64_t>& bytes) {
  for (std::size_t i = 0; i < least.size(); ++i) bytes[i] = std::max(bytes[i], least[i]);
}

// Returns the bytes by which y_1, ..., y_L exceed the outputs, and so do all before them.
std::vector<std::int64_t> StayingBytes(const Chain& chain) {
  const std::vector<std::int64_t>& output = chain.output.empty() ? chain.x : chain.output;
  std::vector<std::int64_t> bytes(chain.y.size());
  for (std::size_t i = 1; i + 1 < bytes.size(); ++i) {
    const std::int64_t above = std::max<std::int64_t>(0, chain.y[i] - output[i]);
    bytes[i] = i == 1 ? above : std::min(above, bytes[i - 1]);
  }
  return bytes;
}

// Takes gradients that stay to the end out of the chain and its memory: rotor would count them in
// each output and each activation.
void TakeOutStayingGradients(Chain& chain) {
  const std::vector<std::int64_t>& extra = chain.backward_extra;
  if (std::all_of(extra.begin(), extra.end(), [](std::int64_t bytes) { return bytes >= 0; })) {
    return;
  }
  const std::vector<std::int64_t> staying = StayingBytes(chain);
  for (std::size_t i = 0; i < extra.size(); ++i) {
    chain.y[i] -= staying[i];
    chain.backward_extra[i] = std::max<std::int64_t>(
        0, chain.backward_extra[i] + staying[i] + staying[i + 1] - staying[1]);
  }
  chain.memory_bytes = std::max<std::int64_t>(0, chain.memory_bytes - staying[1]);
}

}  // namespace

std::string ChainJson(const Chain& chain) {
  ChainText text = Start(chain, chain.forward_seconds.size() - 1, chain::kKeyNames);
  if (!chain.output.empty()) text.Add(Key::kOutput, chain.output);
  if (!chain.output_extra.empty()) text.Add(Key::kOutputExtra, chain.output_extra);
  if (!chain.runs_once.empty()) text.Add(Key::kRunsOnce, chain.runs_once);
  return text.Finish();
}

std::string RotorChainJson(const Chain& chain) {
  Chain lists = chain;
  TakeOutStayingGradients(lists);
  if (EndsWithLoss(chain)) {
    lists.forward_seconds.pop_back();
    lists.forward_extra.pop_back();
    lists.output_extra.resize(chain.output_extra.empty() ? 0 : chain.output_extra.size() - 1);
    lists.x.pop_back();
    lists.y.pop_back();
    lists.output.resize(chain.output.empty() ? 0 : chain.output.size() - 1);
  } else {
    lists.backward_seconds.push_back(0);
    lists.backward_extra.push_back(0);
  }
  RaiseTo(lists.output.empty() ? lists.x : lists.output, lists.y);
  RaiseTo(lists.y, lists.x);
  RaiseTo(lists.output_extra, lists.forward_extra);
  return Start(lists, lists.forward_seconds.size(), chain::kRotorNames).Finish();
}

absl::Status WriteChain(const Chain& chain, const std::filesystem::path& path) {
  if (absl::Status status = ValidateChain(chain); !status.ok()) {
    return text::AboutFile(path.string(), status);
  }
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << ChainJson(chain);
    return absl::OkStatus();
  });
}

}  // namespace tidepool
