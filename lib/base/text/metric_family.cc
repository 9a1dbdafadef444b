// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text/metric_family.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/utf8.h"

namespace tidepool::text {
namespace {

// Returns the value of a label as it stands in quotes. The format holds Unicode alone: any other
// byte is written as \xff, so that two values do not become one.
std::string LabelValue(std::string_view text) {
  std::string value;
  while (!text.empty()) {
    const std::size_t length = text::Utf8Length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0) {
      absl::StrAppend(&value, "\\",
                      absl::CHexEscape(absl::string_view(character.data(), character.size())));
    } else if (character == "\n") {
      value += "\\n";
    } else {
      if (character == "\\" || character == "\"") value += '\\';
      value += character;
    }
    text.remove_prefix(character.size());
  }
  return value;
}

}  // namespace

MetricFamily::MetricFamily(const std::string& name, MetricKind kind, const char* help,
                           std::string& text)
    : name_(absl::StrCat("tidepool_", name, kind == MetricKind::kCounter ? "_total" : "")),
      text_(text) {
  absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ",
                  kind == MetricKind::kCounter ? "counter" : "gauge", "\n");
}

void MetricFamily::Add(const Labels& labels, std::int64_t value) {
  const auto add_label = [](std::string* out, const Labels::value_type& label) {
    absl::StrAppend(out, label.first, "=\"", LabelValue(label.second), "\"");
  };
  absl::StrAppend(&text_, name_, "{", absl::StrJoin(labels, ",", add_label), "} ", value, "\n");
}

void MetricFamily::Add(Labels labels, std::string_view label, std::string_view of,
                       std::int64_t value) {
  labels.emplace_back(label, of);
  Add(labels, value);
}

}  // namespace tidepool::text
