// SPDX-License-Identifier: Apache-2.0
// The papers' search for a sufficient pool (vDNN++, IPDPS 2019, section IV-B): start at the peak of
// live bytes. When a request of r bytes fails with a largest free block of f, start again with r -
// f more.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_RESTART_SEARCH_H_
#define TIDEPOOL_LIB_TRACE_SIZING_RESTART_SEARCH_H_

#include <cstdint>
#include <vector>

#include "lib/trace/sizing/steps.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"

namespace tidepool::sizing {

struct RestartResult {
  enum class End {
    kServed,
    kUndetermined,  // beyond the addresses of ManyPoolsArena, or the policy asked an unanswerable
                    // question
    kOutOfSteps,
    kStopped,
  };

  std::int64_t pool_bytes = 0;
  std::int64_t attempts = 0;
  End end = End::kServed;
};

// Makes the attempts without simulating each from the start: while the larger pool would have
// placed everything so far in the same way, an attempt continues at the event where the one before
// it failed. Unless it ended with kServed, the result is the last state of the search. `policy` has
// no memory. Obeys `alignment`, `most_restart_steps` and `stop` of the options.
RestartResult SearchByRestart(const std::vector<Step>& steps, const TraceLoad& load,
                              PlacementPolicy& policy, const MinimumPoolOptions& options);

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_TRACE_SIZING_RESTART_SEARCH_H_
