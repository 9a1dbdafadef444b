// SPDX-License-Identifier: Apache-2.0
// Times of a chain's operations and transfers, from those of its two halves.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/chain/chain_halves.h"
#include "tidepool/training/chain.h"

namespace tidepool {
namespace {

using chain::Half;
using Indices = std::vector<std::size_t>;

absl::Status CheckIndices(const Chain& chain, const ChainTransfers& transfers) {
  std::vector<bool> is_offloaded(chain.forward_seconds.size());
  std::vector<bool> is_prefetched(chain.forward_seconds.size());
  const std::pair<const Indices&, std::vector<bool>&> lists[] = {
      {transfers.offloads, is_offloaded}, {transfers.prefetches, is_prefetched}};
  for (const auto& [list, seen] : lists) {
    for (const std::size_t index : list) {
      if (index >= seen.size() || seen[index]) {
        return absl::InvalidArgumentError(absl::StrCat("a transfer of activation ", index,
                                                       ", expected indices from 0 to ",
                                                       seen.size() - 1, ", each once"));
      }
      seen[index] = true;
    }
  }
  if (is_offloaded == is_prefetched) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(transfers.offloads.size(), " offloads and ", transfers.prefetches.size(),
                   " prefetches of different activations, expected the same activations"));
}

// Puts both halves on one clock.
ChainTimes Join(const Half& forward, const Half& backward, double gap) {
  ChainTimes times;
  times.gap = gap;
  const double turn = forward.ends.back() + gap;
  times.seconds = turn + backward.ends.back();
  times.forward_starts = forward.starts;
  times.offload_starts = forward.transfer_starts;
  times.backward_starts.reserve(backward.ends.size());
  for (const double end : backward.ends) times.backward_starts.push_back(times.seconds - end);
  times.prefetch_starts.reserve(backward.transfer_ends.size());
  for (std::size_t k = backward.transfer_ends.size(); k-- > 0;) {
    times.prefetch_starts.push_back(times.seconds - backward.transfer_ends[k]);
  }
  return times;
}

}  // namespace

ChainTransfers OrderedTransfers(absl::Span<const std::size_t> set) {
  ChainTransfers transfers;
  transfers.offloads.assign(set.begin(), set.end());
  std::sort(transfers.offloads.begin(), transfers.offloads.end());
  transfers.prefetches.assign(transfers.offloads.rbegin(), transfers.offloads.rend());
  return transfers;
}

absl::StatusOr<ChainTimes> PlaceTransfers(const Chain& chain, const ChainTransfers& transfers) {
  if (absl::Status status = CheckIndices(chain, transfers); !status.ok()) return status;
  const absl::StatusOr<Half> forward = chain::PlaceHalf(chain, transfers.offloads, true);
  if (!forward.ok()) return forward.status();
  const Indices reversed(transfers.prefetches.rbegin(), transfers.prefetches.rend());
  const absl::StatusOr<Half> backward = chain::PlaceHalf(chain, reversed, false);
  if (!backward.ok()) return backward.status();
  return Join(*forward, *backward, chain::FindGap(chain, transfers, *forward, *backward));
}

absl::StatusOr<double> OrderedMakespan(const Chain& chain, absl::Span<const std::size_t> set) {
  absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, OrderedTransfers(set));
  if (!times.ok()) return times.status();
  return times->seconds;
}

}  // namespace tidepool
