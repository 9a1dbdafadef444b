// SPDX-License-Identifier: Apache-2.0
// The density of a buffer, by the words that were counted while it was compressed.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_COUNTED_DENSITY_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_COUNTED_DENSITY_H_

#include <cstdint>

#include "lib/base/arithmetic.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/density_probe.h"

namespace tidepool::pipeline {

inline DensityEstimate CountedDensity(const StoredBuffer& stored) {
  const auto word = static_cast<std::int64_t>(stored.word());
  const std::int64_t words = CeilDivide(stored.input_bytes(), word);
  return {.density = static_cast<double>(stored.nonzero_words()) / static_cast<double>(words),
          .counted_words = words,
          .is_exact = true};
}

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_COUNTED_DENSITY_H_
