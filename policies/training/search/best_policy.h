// SPDX-License-Identifier: Apache-2.0
// The policy `best`.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/budget/budget.h"
#include "policies/training/requests/policy_table.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

inline constexpr char kBestName[] = "best";

// Makes a schedule of a valid graph for the first device of a checked request: with fixed addresses
// that fit into the memory, unless the request asks for pages. It begins with schedules of the
// policies.
absl::StatusOr<Schedule> MakeBest(requests::PolicyTable policies, const TaskGraph& graph,
                                  const ScheduleRequest& request);

// A search of MakeBest that goes on round by round, and shares its answers with searches for the
// same graph in other memories. Not thread-safe.
class BestSearch {
 public:
  // The arguments are those of MakeBest. The time limit and the stop are those of `budget`, which
  // outlives the search.
  BestSearch(requests::PolicyTable policies, const TaskGraph& graph, const ScheduleRequest& request,
             budget::Budget& budget);
  BestSearch(BestSearch&& other) noexcept;
  ~BestSearch();

  // Searches one more round, with this work: in each call twice that of the call before. Returns
  // the fastest schedule so far.
  absl::StatusOr<Schedule> MakeRound(double work_seconds);
  // Goes on from the answers of another search where they are faster in this memory.
  void TakeLeads(const BestSearch& other);
  // Whether no schedule is faster than that of the last round.
  bool IsFastest() const;

 private:
  struct Parts;

  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_POLICY_H_
