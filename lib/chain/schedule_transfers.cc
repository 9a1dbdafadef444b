// SPDX-License-Identifier: Apache-2.0
// Schedules of a chain's transfers, without those that do nothing.
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/chain/graph_walk.h"
#include "lib/chain/move_scheduler.h"
#include "lib/io/quote.h"
#include "tidepool/schedule/chain.h"

namespace tidepool::chain {
namespace {

// Sums of rounded sizes do not overflow.
constexpr std::int64_t kMostGranule = std::int64_t{1} << 30;

// Removes the activations from transfers for which `is_useless` is true.
template <typename IsUseless>
void Remove(const IsUseless& is_useless, ChainTransfers& transfers) {
  std::erase_if(transfers.offloads, is_useless);
  std::erase_if(transfers.prefetches, is_useless);
}

// Places transfers without those that do nothing: of activations without bytes, and of activations
// that would come back before they have left.
absl::StatusOr<ChainTimes> PlaceUseful(const Chain& chain, ChainTransfers& transfers) {
  absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
  if (!times.ok()) return times.status();
  Remove([&](std::size_t i) { return chain.x[i] == 0; }, transfers);
  while (true) {
    times = PlaceTransfers(chain, transfers);
    if (!times.ok()) return times.status();
    // Prefetches start after all offloads, so only the last activation can be too early.
    std::size_t early = kNoTask;
    for (std::size_t k = 0; k < transfers.prefetches.size(); ++k) {
      const std::size_t i = transfers.prefetches[k];
      const double end = times->forward_starts[i] + chain.forward_seconds[i];
      if (times->prefetch_starts[k] < end - kRounding * times->seconds) early = i;
    }
    if (early == kNoTask) return times;
    Remove([&](std::size_t i) { return i == early; }, transfers);
  }
}

// Returns all operations, each offload after the operation that makes its activation, and each
// prefetch before the one that needs it.
std::vector<ChainMove> MovesOf(const Chain& chain, const ChainTransfers& transfers,
                               const ChainTimes& times) {
  constexpr double kStays = -1;
  std::vector<double> out(chain.x.size(), kStays);
  std::vector<double> in(chain.x.size(), kStays);
  for (std::size_t k = 0; k < transfers.offloads.size(); ++k) {
    out[transfers.offloads[k]] = times.offload_starts[k];
    in[transfers.prefetches[k]] = times.prefetch_starts[k];
  }
  std::vector<ChainMove> moves;
  for (std::size_t i = 0; i < times.forward_starts.size(); ++i) {
    if (out[i] != kStays) moves.push_back({ChainMove::Kind::kOffload, i, out[i]});
    moves.push_back({ChainMove::Kind::kForward, i, times.forward_starts[i]});
  }
  for (std::size_t i = times.backward_starts.size(); i-- > 0;) {
    if (in[i] != kStays) moves.push_back({ChainMove::Kind::kPrefetch, i, in[i]});
    moves.push_back({ChainMove::Kind::kBackward, i, times.backward_starts[i]});
  }
  return moves;
}

}  // namespace

absl::Status CheckGraphSchedule(const TaskGraph& graph, std::int64_t granule) {
  if (granule < 1 || granule > kMostGranule) {
    return absl::InvalidArgumentError(
        absl::StrCat("granules of ", granule, " bytes, expected 1 to 2^30"));
  }
  for (const GraphData& data : graph.data) {
    if (!IsResident(data) || data.before != DataHome::kHost) continue;
    return absl::InvalidArgumentError(absl::StrCat(io::Quoted(data.name),
                                                   " is at home on the host, expected weights and "
                                                   "their states on the device"));
  }
  return absl::OkStatus();
}

}  // namespace tidepool::chain

namespace tidepool {

absl::StatusOr<Schedule> ScheduleTransfers(const TaskGraph& graph, const GraphChain& made,
                                           const ChainTransfers& transfers, std::int64_t granule) {
  if (absl::Status status = chain::CheckGraphSchedule(graph, granule); !status.ok()) return status;
  ChainTransfers useful = transfers;
  const absl::StatusOr<ChainTimes> times = chain::PlaceUseful(made.chain, useful);
  if (!times.ok()) return times.status();
  const std::vector<chain::ChainMove> moves = chain::MovesOf(made.chain, useful, *times);
  return chain::ScheduleMoves(graph, made, moves, times->seconds, granule);
}

}  // namespace tidepool
