// SPDX-License-Identifier: Apache-2.0
// The policy `best`.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Makes a schedule of a valid graph for the first device of a checked request: with fixed addresses
// that fit into the memory, unless the request asks for pages.
absl::StatusOr<Schedule> MakeBest(std::string_view policy, const TaskGraph& graph,
                                  const ScheduleRequest& request);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_
