// SPDX-License-Identifier: Apache-2.0
// The spectra of cuDNN's FFT convolutions, for the sizes of their workspaces. A workspace has the
// spectra of X, Y and W. For conv2 of AlexNet that is 212.5 MiB with 256 samples and 48.875 MiB
// with 32, as cuDNN reported them to Oyama et al. (micro-cuDNN, CLUSTER 2018).
#ifndef TIDEPOOL_DRYRUN_SPECTRA_H_
#define TIDEPOOL_DRYRUN_SPECTRA_H_

#include <cstdint>

#include "lib/base/arithmetic.h"

namespace tidepool::cudart_host {

inline constexpr std::int64_t kSpectrumTile = 32;  // the side of an image's tile
inline constexpr std::int64_t kComplexBytes = 8;

// Returns the side of the spectrum that holds a padded image of `needed` rows or columns: a power
// of two from 32; 0 above 256.
inline std::int64_t SpectrumSide(std::int64_t needed) {
  constexpr std::int64_t kLargest = 256;
  std::int64_t side = kSpectrumTile;
  while (side < needed && side <= kLargest) side *= 2;
  return side <= kLargest ? side : 0;
}

// Returns the complex numbers in the spectrum of a real image: half of a square.
inline std::int64_t SpectrumNumbers(std::int64_t side) { return side * (side / 2 + 1); }

// Returns the tiles along a direction of the output. Tiles overlap by the kernel.
inline std::int64_t TilesAlong(std::int64_t outputs, std::int64_t kernel) {
  const std::int64_t step = kSpectrumTile - kernel + 1;
  return CeilDivide(outputs, step);
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_SPECTRA_H_
