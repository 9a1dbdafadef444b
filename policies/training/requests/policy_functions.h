// SPDX-License-Identifier: Apache-2.0
// The functions of an offload policy, as its row of the registry lists them.
#ifndef TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_FUNCTIONS_H_
#define TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
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

// A policy has a function for a pool, for fixed addresses of its own, or for a round. The last one
// serves pages, addresses, rounds and devices (rounds::MakeIteration).
struct OffloadPolicy {
  enum class Options : std::uint8_t { kLayerwise, kGraphChain, kBest, kModnn };

  std::string_view name = {};
  std::string_view description = {};
  Options options = Options::kLayerwise;
  MakeForGraph make_pooled = nullptr;  // a whole iteration in a pool
  MakeForGraph make_fixed = nullptr;   // a whole iteration with addresses of its own
  // A round, which may be the whole iteration. Paged, or with addresses of its own.
  MakeForGraph make_round = nullptr;
  bool rounds_keep_addresses = false;           // false: several rounds drop them (InPages)
  ChooseSubBatchOf choose_sub_batch = nullptr;  // null: the largest that fits

  bool MakesRounds() const { return make_round != nullptr; }
};

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_FUNCTIONS_H_
