// SPDX-License-Identifier: Apache-2.0
// Fixed buffers as obstacles of an instance.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_OBSTACLES_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_OBSTACLES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

struct Obstacle {
  std::int32_t first;
  std::int32_t end;
  std::int64_t offset;
  std::int64_t top;
};

// Joins the obstacles with the same sections that touch: parts of one buffer, for example.
// O(n log n).
std::vector<Obstacle> JoinTouching(std::vector<Obstacle> obstacles);

// Joins the obstacles that live throughout, in `sections` sections, and that touch or have less
// than `least` units between them; other obstacles stay as they are. O(n log n).
std::vector<Obstacle> Join(std::vector<Obstacle> obstacles, std::int32_t sections,
                           std::int64_t least);

// Returns a lower bound of all heights, in units. Obstacles that live throughout leave holes, and
// only holes of at least k units can hold buffers of k units and more, for any k. O(n log n).
std::int64_t BoundByHoles(const Instance& instance);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_OBSTACLES_H_
