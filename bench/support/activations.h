// SPDX-License-Identifier: Apache-2.0
// Activations for benchmarks: normal numbers after a ReLU with a given density, and zeros spread
// evenly or in runs.
#ifndef TIDEPOOL_BENCH_SUPPORT_ACTIVATIONS_H_
#define TIDEPOOL_BENCH_SUPPORT_ACTIVATIONS_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace tidepool::bench {

enum class Zeros : std::uint8_t {
  kUniform,
  kClustered,  // runs of words, 64 on average
};

inline std::vector<std::byte> Activations(std::size_t bytes, double density, Zeros zeros,
                                          std::uint64_t seed) {
  constexpr double kRun = 64;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto fraction = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<std::byte> buffer(bytes);
  bool is_set = fraction() < density;
  for (std::size_t at = 0; at + sizeof(float) <= bytes; at += sizeof(float)) {
    // Each word may end a run at random; the next run is drawn again.
    if (zeros == Zeros::kUniform || fraction() * kRun < 1) is_set = fraction() < density;
    const float number = is_set ? std::abs(normal(random)) : 0.0F;
    std::memcpy(buffer.data() + at, &number, sizeof(number));
  }
  return buffer;
}

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_ACTIVATIONS_H_
