// SPDX-License-Identifier: Apache-2.0
// Repairs a schedule if its plan of addresses does not fit.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_

#include <vector>

#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// Offloads, for each stay of a plan that lies above the memory, its datum or another one with as
// many bytes as are above, for as long, whichever lengthens the iteration least. `schedule` has the
// steps of the plan, and the runs of the iteration. Ends early when `go_on`, which is asked after
// each schedule that was tried, says so. Finds no new times. Returns whether any data leaves.
// O(high stays x absences x dispatches).
bool SendHighStays(const Schedule& schedule, const std::vector<schedule::HighStay>& high_stays,
                   const transfers::GoOn& go_on, transfers::Iteration& iteration);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_SEND_HIGH_STAYS_H_
