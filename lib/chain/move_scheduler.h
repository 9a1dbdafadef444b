// SPDX-License-Identifier: Apache-2.0
// Turns operations and transfers of a chain, with their times, into the steps of a schedule.
#ifndef TIDEPOOL_LIB_CHAIN_MOVE_SCHEDULER_H_
#define TIDEPOOL_LIB_CHAIN_MOVE_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/schedule/chain.h"

namespace tidepool::chain {

// Times are sums in different orders. Those that differ by this part of the makespan are equal.
inline constexpr double kRounding = 1e-12;

// An operation or a transfer of the chain.
struct ChainMove {
  enum class Kind : std::uint8_t { kForward, kBackward, kOffload, kPrefetch };

  Kind kind = Kind::kForward;
  std::size_t index = 0;
  double start = 0;  // seconds
};

// Returns the schedule of moves. They are in an order in which they may happen: an offload comes
// after the forward operation that makes its activation, and a prefetch before the operation that
// needs it. Forward operations may repeat. InvalidArgument where a task runs again that may not,
// ResourceExhausted where data in granules does not fit.
absl::StatusOr<Schedule> ScheduleMoves(const TaskGraph& graph, const GraphChain& made,
                                       const std::vector<ChainMove>& moves, double seconds,
                                       std::int64_t granule);

// Returns InvalidArgument for weights at home on the host, and for granules of other than 1 to 2^30
// bytes.
absl::Status CheckGraphSchedule(const TaskGraph& graph, std::int64_t granule);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_CHAIN_MOVE_SCHEDULER_H_
