// SPDX-License-Identifier: Apache-2.0
// Repairs an iteration with a plan of addresses that exceeds the memory: more data leaves.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_

#include <vector>

#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// Lets data leave during each stay that the plan puts above the memory: the datum of the stay, or
// another one that frees as many bytes, whichever lengthens the iteration least.
// `schedule` has the steps of the plan and the runs of the iteration. `go_on` is asked after each
// set of absences that was tried; false ends the repair. The caller finds the new times
// (transfers::FindTimes). Returns whether any more data leaves.
// O(high stays x absences x dispatches).
bool SendHighStays(const Schedule& schedule, const std::vector<schedule::HighStay>& high_stays,
                   const transfers::GoOn& go_on, transfers::Iteration& iteration);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_
