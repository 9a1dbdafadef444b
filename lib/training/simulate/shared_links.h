// SPDX-License-Identifier: Apache-2.0
// Times of a program in which copies divide links: an event-driven simulation.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_SHARED_LINKS_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_SHARED_LINKS_H_

#include <vector>

#include "tidepool/training/timeline.h"

namespace tidepool::simulate {

// Returns the result of TimeProgram, for any program. O((operations + waits) log operations).
std::vector<OperationTimes> TimesOnSharedLinks(const Program& program);

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_SHARED_LINKS_H_
