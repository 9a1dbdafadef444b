// SPDX-License-Identifier: Apache-2.0
// Puts an iteration together from schedules of its rounds.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_COMPOSE_ROUNDS_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_COMPOSE_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "policies/training/rounds/round_graph.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::rounds {

// The rounds of each device: `full` ones of `sub_batch` samples, and one of `rest` samples, if any.
struct BatchDivision {
  std::int64_t sub_batch = 0;
  std::int64_t full = 0;
  std::int64_t rest = 0;

  std::int64_t rounds() const { return full + (rest > 0 ? 1 : 0); }
};

struct Composition {
  BatchDivision division;
  std::size_t devices = 1;
  std::size_t cores = 0;  // of the host, for the updates; 0: each device runs them
  GradientReduction reduction = GradientReduction::kHost;  // of several devices
  std::int64_t buffer_offset = -1;  // of additions, for rounds with fixed addresses
};

// Returns the schedule of an iteration of `graph`. `rounds` has the schedule of a round graph
// with the sub-batch, and of one with the rest, if any; both for one device, with pages, or with
// fixed addresses that are the same for data that stays. The iteration has the same memory.
//
// Weights, their gradients and optimizer state have their memory from the start to the end.
// Updates follow the last round: on the host, which gets the gradients as they are ready and sends
// weights back; or on devices, around which gradients go as they are ready, or which send them to
// the first one after the round. Rounds name their batches. O(steps x devices).
Schedule ComposeRounds(const TaskGraph& graph, const RoundGraph& round_graph,
                       absl::Span<const Schedule> rounds, const Composition& composition);

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_COMPOSE_ROUNDS_H_
