// SPDX-License-Identifier: Apache-2.0
// MetricFamily: the samples of one figure in Prometheus' text format.
#ifndef TIDEPOOL_LIB_BASE_TEXT_METRIC_FAMILY_H_
#define TIDEPOOL_LIB_BASE_TEXT_METRIC_FAMILY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidepool::text {

enum class MetricKind : std::uint8_t { kGauge, kCounter };  // a counter never falls

using Labels = std::vector<std::pair<std::string, std::string>>;

class MetricFamily {
 public:
  // Begins the family `tidepool_<name>` in `text`, which outlives it.
  MetricFamily(const std::string& name, MetricKind kind, const char* help, std::string& text);

  void Add(const Labels& labels, std::int64_t value);
  // Adds a sample with a further label.
  void Add(Labels labels, std::string_view label, std::string_view of, std::int64_t value);

 private:
  std::string name_;
  std::string& text_;
};

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_BASE_TEXT_METRIC_FAMILY_H_
