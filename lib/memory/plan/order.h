// SPDX-License-Identifier: Apache-2.0
// Orders of buffers by keys, the first of which counts most.
//
// The keys are those of the literature: total load (the buffers of the fullest sections first),
// duration and area (MiniMalloc), size (Sekiyama et al. 2018, TFLite). A further key is the weight
// that the exact search gave to sections in which it failed.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_ORDER_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

enum class Key : std::uint8_t {
  kFailures,  // the largest weight of any of its sections
  kLoad,      // the largest load of any of its sections
  kLoadBand,  // kLoad in 64 bands, so that similar loads are equal
  kDuration,
  kSections,  // the number of sections that it spans
  kSize,
  kArea,  // size x duration
};

// Returns the buffers in descending order of the keys; equal ones in their own order. `weights` has
// one value per section, or is empty without kFailures. O(n log n).
std::vector<std::int32_t> OrderBy(const Instance& instance, std::span<const Key> keys,
                                  const std::vector<double>& weights = {});

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_ORDER_H_
