// SPDX-License-Identifier: Apache-2.0
// Writes chains: each list has a line of its own, so that line numbers in errors are useful.
#include <array>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/chain/check_chain.h"
#include "lib/io/quote.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/trace/output_file.h"

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

void AppendKey(Key key, std::string& json) {
  absl::StrAppend(&json, key == Key::kLast ? "{" : ",\n ", "\"", std::string(KeyName(key)), "\": ");
}

template <typename Number>
void AppendList(Key key, const std::vector<Number>& list, std::string& json) {
  AppendKey(key, json);
  const char* before = "[";
  for (const Number number : list) {
    json += before;
    AppendNumber(number, json);
    before = ", ";
  }
  json += ']';
}

}  // namespace

std::string ChainJson(const Chain& chain) {
  std::string json;
  AppendKey(Key::kLast, json);
  AppendNumber(chain.forward_seconds.size() - 1, json);
  AppendKey(Key::kLink, json);
  AppendNumber(chain.link_bytes_per_second, json);
  AppendKey(Key::kMemory, json);
  AppendNumber(chain.memory_bytes, json);
  AppendList(Key::kForwardSeconds, chain.forward_seconds, json);
  AppendList(Key::kBackwardSeconds, chain.backward_seconds, json);
  AppendList(Key::kForwardExtra, chain.forward_extra, json);
  AppendList(Key::kBackwardExtra, chain.backward_extra, json);
  AppendList(Key::kX, chain.x, json);
  AppendList(Key::kY, chain.y, json);
  json += "}\n";
  return json;
}

absl::Status WriteChain(const Chain& chain, const std::filesystem::path& path) {
  if (absl::Status status = ValidateChain(chain); !status.ok()) {
    return io::AboutFile(path.string(), status);
  }
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << ChainJson(chain);
    return absl::OkStatus();
  });
}

}  // namespace tidepool
