// SPDX-License-Identifier: Apache-2.0
// Sorts buffers by keys.
#include "lib/memory/plan/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tidepool::plan {
namespace {

std::vector<double> Values(const Instance& instance, Key key, const std::vector<double>& weights) {
  std::vector<double> values(instance.count());
  const auto fill = [&](auto value) {
    for (std::int32_t i = 0; i < instance.count(); ++i) values[i] = value(i);
    return values;
  };
  switch (key) {
    case Key::kFailures:
      return RangeMaxima(weights, instance.first, instance.end);
    case Key::kLoad:
      return RangeMaxima({instance.load.begin(), instance.load.end()}, instance.first,
                         instance.end);
    case Key::kLoadBand: {
      const double band = static_cast<double>(instance.lower_bound) / 64;
      values = Values(instance, Key::kLoad, weights);
      for (double& value : values) value = std::floor(value / band);
      return values;
    }
    case Key::kDuration:
      return instance.duration;
    case Key::kSections:
      return fill([&](std::int32_t i) { return instance.end[i] - instance.first[i]; });
    case Key::kSize:
      return {instance.size.begin(), instance.size.begin() + instance.count()};
    case Key::kArea:
      return fill([&](std::int32_t i) {
        return static_cast<double>(instance.size[i]) * instance.duration[i];
      });
  }
  return values;
}

}  // namespace

std::vector<std::int32_t> OrderBy(const Instance& instance, std::span<const Key> keys,
                                  const std::vector<double>& weights) {
  std::vector<std::int32_t> order(instance.count());
  std::iota(order.begin(), order.end(), 0);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const std::vector<double> values = Values(instance, *key, weights);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return values[a] > values[b]; });
  }
  return order;
}

}  // namespace tidepool::plan
