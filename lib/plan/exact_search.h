// Exact search for a plan within a capacity, in MiniMalloc's manner (Moffitt, ASPLOS 2023).
//
// If there is a plan, there is a canonical one: every buffer lies on another or on the ground, and
// buffers are placed in the order of their offsets, equal ones by rank. So the search tries, as the
// next one, each buffer whose lowest offset is not below the last one placed, nor above the lowest
// top that any could have. What it adds to MiniMalloc is that a buffer which was passed over, so
// that its lowest offset lies below the last one placed, must be lifted by a buffer yet to come, so
// it lies no lower than the lowest top of those. With that, a section fails as soon as the lowest
// offset of all that is left in it, and the sum of it, exceed the capacity. Where no unplaced
// buffer crosses, the problem falls into parts.
//
// Obstacles that live throughout are taken out of the address space; where they were is a cut that
// no buffer may reach across. A buffer's lowest offset is the lowest one above what is placed at
// which it crosses none, and all of the above holds.
//
// Sections that failed get weight, which decays, and buffers in weighty sections are tried first in
// later searches (as in dom/wdeg, Boussemart et al. 2004): so a search is given up early and
// repeated.
#ifndef TIDEPOOL_LIB_PLAN_EXACT_SEARCH_H_
#define TIDEPOOL_LIB_PLAN_EXACT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/plan/budget.h"
#include "lib/plan/instance.h"
#include "lib/plan/order.h"

namespace tidepool::plan {

struct ExactAnswer {
  enum class Kind : std::uint8_t { kFound, kInfeasible, kStopped };

  Kind kind = Kind::kStopped;
  Offsets offsets;  // when it was found
};

// Not thread-safe.
class ExactSearch {
 public:
  // The seed gives the sections their first weights. `instance` must outlive the search.
  ExactSearch(const Instance& instance, std::uint64_t seed);

  // Whether all obstacles live throughout, and everything is aligned if there are any.
  static bool IsFor(const Instance& instance);

  // Looks for a plan of at most `capacity` units, which is less than 2^61 and no less than the top
  // of any obstacle. `keys` is the order of ranks. A step of the budget is a node of the search
  // tree. It stops when the budget is spent, or its memory, and does not begin where buffers span
  // more than 10^9 sections in all, nor on an instance that it is not for.
  ExactAnswer Find(std::int64_t capacity, std::span<const Key> keys, Budget& budget);

 private:
  const Instance& instance_;
  std::vector<double> weights_;  // of sections, for having failed
  double spans_ = 0;             // sections that buffers span, summed up
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_EXACT_SEARCH_H_
