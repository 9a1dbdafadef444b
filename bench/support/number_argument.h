// SPDX-License-Identifier: Apache-2.0
// Numbers among a benchmark's positional arguments.
#ifndef TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_
#define TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tidepool::bench {

struct NumberArguments {
  int count = 0;
  char** texts = nullptr;

  // Clamps an argument to the range, so that later conversions are defined. Text that is not a
  // number counts as 0, and NaN as `otherwise`.
  double At(int i, double otherwise, double least, double most) const {
    const double number = i < count ? std::atof(texts[i]) : otherwise;
    return std::isnan(number) ? otherwise : std::clamp(number, least, most);
  }
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_
