// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text/metric_family.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace tidepool::text {

MetricFamily::MetricFamily(const std::string& name, MetricKind kind, const char* help,
                           std::string& text)
    : name_(absl::StrCat("tidepool_", name, kind == MetricKind::kCounter ? "_total" : "")),
      text_(text) {
  absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ",
                  kind == MetricKind::kCounter ? "counter" : "gauge", "\n");
}

void MetricFamily::Add(const Labels& labels, std::int64_t value) {
  const auto add_label = [](std::string* out, const Labels::value_type& label) {
    absl::StrAppend(
        out, label.first, "=\"",
        absl::StrReplaceAll(label.second, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
  };
  absl::StrAppend(&text_, name_, "{", absl::StrJoin(labels, ",", add_label), "} ", value, "\n");
}

void MetricFamily::Add(Labels labels, std::string_view label, std::string_view of,
                       std::int64_t value) {
  labels.emplace_back(label, of);
  Add(labels, value);
}

}  // namespace tidepool::text
