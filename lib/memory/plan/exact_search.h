// SPDX-License-Identifier: Apache-2.0
// Exact search for a plan within a capacity, in the manner of MiniMalloc (Moffitt, ASPLOS 2023).
//
// If a plan exists, a canonical one does: every buffer lies on another buffer or on the ground, and
// buffers are placed in ascending order of their offsets, equal offsets by rank. So a buffer is a
// candidate for the next placement if its lowest offset is at least the last placed offset, and at
// most the lowest top of any unplaced buffer.
//
// One rule goes beyond MiniMalloc. A buffer was passed over when its lowest offset lies below the
// last placed one. Only a buffer that is still to be placed can lift it, so it lies no lower than
// the lowest top of those buffers. With this bound, a section fails as soon as the lowest offset of
// its unplaced buffers plus their total size exceeds the capacity. Where no unplaced buffer
// crosses, the problem falls into independent parts.
//
// Obstacles that live throughout are removed from the address space, and leave cuts that no buffer
// may cross. A buffer's lowest offset is then the lowest one above the placed buffers at which it
// crosses no cut, and all of the above holds.
//
// Sections that failed gain weight, which decays, and later searches try buffers in heavy sections
// first (as dom/wdeg does, Boussemart et al. 2004). Therefore each search is given up early and
// repeated.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_EXACT_SEARCH_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_EXACT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/order.h"

namespace tidepool::plan {

struct ExactAnswer {
  enum class Kind : std::uint8_t { kFound, kInfeasible, kStopped };

  Kind kind = Kind::kStopped;
  Offsets offsets;  // when a plan was found
};

// Not thread-safe.
class ExactSearch {
 public:
  // `seed` gives the sections their first weights. `instance` must outlive the search.
  ExactSearch(const Instance& instance, std::uint64_t seed);

  // Returns whether the search supports the instance: one stream, all obstacles live throughout,
  // and if there are any, every offset is aligned.
  static bool IsFor(const Instance& instance);

  // Looks for a plan of at most `capacity` units, which is less than 2^61 and at least the top of
  // any obstacle. `keys` is the order of ranks. A step of the budget is a node of the search tree.
  // The search stops when its budget or its memory is spent. It does not begin where buffers span
  // more than 10^9 sections in all, or on an unsupported instance.
  ExactAnswer Find(std::int64_t capacity, std::span<const Key> keys, budget::Budget& budget);

 private:
  const Instance& instance_;
  std::vector<double> weights_;  // of sections, raised by their failures
  double spans_ = 0;             // sum of the sections that buffers span
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_EXACT_SEARCH_H_
