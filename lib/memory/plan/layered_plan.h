// SPDX-License-Identifier: Apache-2.0
// Plans in layers: buffers that live throughout lie at the bottom, small ones at the top, and the
// others between them. Where buffers are fixed, the others lie around those.
//
// A training step has some large activations, and hundreds of weights and statistics. A weight is
// there all the time, so some lowest plan has it at the bottom. Small buffers cost almost no height
// together. The search is left with the buffers that matter.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_LAYERED_PLAN_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_LAYERED_PLAN_H_

#include <cstdint>

#include "lib/base/budget/budget.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

struct LayeredOptions {
  std::int64_t capacity = 0;  // the height that suffices, in bytes
  // Of the ejection search: buffers, fixed ones too, times steps.
  double work = 0;
  std::uint64_t seed = 1;
};

// Returns the lowest plan that heuristics and the ejection search find. Equal arguments give equal
// plans unless the budget ends first. The problem is valid and has one stream, and one alignment of
// all buffers that are not fixed.
Plan PlanInLayers(const PlanProblem& problem, const LayeredOptions& options, budget::Budget& whole);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_LAYERED_PLAN_H_
