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

// A policy makes schedules of a pool, paged ones, or ones with addresses of its own. Paged ones get
// rounds, devices and fixed addresses from MakeSchedule. `make_paged` of "best" gives fixed
// addresses unless the request asks for pages; rounds drop them (InPages).
struct OffloadPolicy {
  enum class Options : std::uint8_t { kLayerwise, kGraphChain, kBest, kModnn };

  std::string_view name;
  std::string_view description;
  Options options = Options::kLayerwise;
  MakeForGraph make_pooled = nullptr;
  MakeForGraph make_paged = nullptr;
  MakeForGraph make_fixed = nullptr;
  // Makes paged schedules, or ones with addresses of its own that rounds keep.
  MakeForGraph make_rounds = nullptr;
  ChooseSubBatchOf choose_sub_batch = nullptr;  // null: the largest that fits

  // Returns the function for rounds, several devices, fixed addresses and pages; null for none.
  const MakeForGraph& ForRounds() const { return make_paged != nullptr ? make_paged : make_rounds; }
};

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_FUNCTIONS_H_
