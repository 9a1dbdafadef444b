// SPDX-License-Identifier: Apache-2.0
// The table of offload policies: the type of its rows. The rows are in
// policies/training/registry/policy_table.cc; `best`, the front and the tool iterate over them.
#ifndef TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_TABLE_H_
#define TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_TABLE_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::requests {

// Makes a schedule of the policy with a name, of a valid graph, for the first device of a checked
// request.
using MakeForGraph = std::function<absl::StatusOr<Schedule>(
    std::string_view policy, const TaskGraph& graph, const ScheduleRequest& request)>;

// Chooses the sub-batch of a family for a device with `batch` samples of a checked request.
using ChooseSubBatchOf = absl::StatusOr<std::int64_t> (*)(const GraphFamily& family,
                                                          std::int64_t batch,
                                                          const ScheduleRequest& request);

// A row of the table: a policy, its functions and its traits. A policy has a function for a pool,
// for fixed addresses of its own, or for a round. The last one serves pages, addresses, rounds and
// devices (rounds::MakeIteration).
struct OffloadPolicy {
  std::string_view name = {};
  std::string_view description = {};
  PolicyOptions options = {};          // its defaults, of the type that it takes
  MakeForGraph make_pooled = nullptr;  // a whole iteration in a pool
  MakeForGraph make_fixed = nullptr;   // a whole iteration with addresses of its own
  // A round, which may be the whole iteration. Paged, or with addresses of its own.
  MakeForGraph make_round = nullptr;
  ChooseSubBatchOf choose_sub_batch = nullptr;  // null: the largest that fits

  bool sends = true;                   // data leaves for the host
  bool recomputes = false;             // tasks run again
  bool rounds_keep_addresses = false;  // false: several rounds drop them (InPages)
  // The options of the schedules that `best` compares with its own; empty: of none.
  std::vector<PolicyOptions> tried_by_best = {};

  bool MakesRounds() const { return make_round != nullptr; }
};

// All policies, in the order in which texts list them.
using PolicyTable = absl::Span<const OffloadPolicy>;

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_TABLE_H_
