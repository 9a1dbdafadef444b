// Numbers that a benchmark is given by position.
#ifndef TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_
#define TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tidepool::bench {

struct NumberArguments {
  int count = 0;
  char** texts = nullptr;

  // What is out of the range, or no number, is brought into it: no conversion of it is undefined.
  double At(int i, double otherwise, double least, double most) const {
    const double number = i < count ? std::atof(texts[i]) : otherwise;
    return std::isnan(number) ? otherwise : std::clamp(number, least, most);
  }
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_NUMBER_ARGUMENT_H_
