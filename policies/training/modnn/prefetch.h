// SPDX-License-Identifier: Apache-2.0
// Lines 15 to 27 of Algorithm 1: data of later tasks comes back while a task runs.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_PREFETCH_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_PREFETCH_H_

#include <cstddef>

#include "policies/training/modnn/iteration.h"

namespace tidepool::modnn {

// Begins the copies for tasks after `task`, which runs next and ends at `end`, that would be late
// if they began after it.
void PrefetchForLaterTasks(Iteration& iteration, std::size_t task, double end);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_PREFETCH_H_
