// SPDX-License-Identifier: Apache-2.0
// The policy dynprog: the set of Algorithm 1, with the times of whole transfers that are not
// interrupted. And the values of Beaumont et al.'s relaxations.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/fractional_chain.h"
#include "policies/training/chain/idle_search.h"
#include "policies/training/chain/paper_values.h"
#include "policies/training/chain/slots.h"
#include "policies/training/chain/transfer_schedule.h"

namespace tidepool::chain_policies {
namespace {

absl::Status CannotRun(const Chain& chain) {
  return absl::ResourceExhaustedError(
      absl::StrCat("an operation does not fit into the memory of ", chain.memory_bytes, " bytes"));
}

// After this number of searches all sizes are rounded up at once: each takes up to a second.
constexpr std::size_t kMostSlotSearches = 100;

// Rounded sizes are optimistic at first. While the set does not fit the true sizes, one size more
// is rounded up. Where the chain does not fit the slots, the policy is greedy.
absl::StatusOr<ChainSchedule> MakeInSlots(const Chain& chain, const ChainPolicyOptions& options) {
  FractionalChain in_slots = InSlots(chain, options.slots);
  for (std::size_t searches = 1; searches <= kMostSlotSearches + 1; ++searches) {
    const std::optional<LeastIdle> least = FindLeastIdle(in_slots, options.stop);
    if (!least.has_value() || options.stop.stop_requested()) break;
    absl::StatusOr<ChainSchedule> schedule = ScheduleSet(chain, least->set);
    if (schedule.ok()) return schedule;
    if (searches == kMostSlotSearches) {
      GiveAllSlots(chain, in_slots);
    } else if (!GiveSlot(chain, in_slots)) {
      break;
    }
  }
  return MakeGreedy(chain, options);
}

double SecondsOf(const Chain& chain, double idle) {
  return ChainSeconds(chain) + idle / chain.link_bytes_per_second;
}

}  // namespace

absl::StatusOr<ChainSchedule> MakeDynprog(const Chain& chain, const ChainPolicyOptions& options) {
  if (options.slots > 0 && chain.memory_bytes > 0) return MakeInSlots(chain, options);
  const std::optional<LeastIdle> least = FindLeastIdle(ToFractional(chain), options.stop);
  if (!least.has_value()) return CannotRun(chain);
  return ScheduleSet(chain, least->set);
}

absl::StatusOr<double> FractionalMakespan(const Chain& chain, absl::Span<const std::size_t> set) {
  std::vector<std::optional<double>> moved(chain.forward_seconds.size());
  for (const std::size_t i : set) {
    if (i >= moved.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("activation ", i, ", expected 0 to ", moved.size() - 1));
    }
    moved[i] = static_cast<double>(chain.x[i]);
  }
  const std::optional<double> idle = FractionalIdle(ToFractional(chain), moved);
  if (!idle.has_value()) return CannotRun(chain);
  return SecondsOf(chain, *idle);
}

absl::StatusOr<double> EagerFractionalMakespan(const Chain& chain) {
  const FractionalChain fractional = ToFractional(chain);
  const std::optional<double> idle =
      EagerBound(fractional)
          .Idle(0, FirstState(fractional), std::numeric_limits<double>::infinity());
  if (!idle.has_value()) return CannotRun(chain);
  return SecondsOf(chain, *idle);
}

absl::StatusOr<FractionalOptimum> FindFractionalOptimum(const Chain& chain) {
  std::optional<LeastIdle> least = FindLeastIdle(ToFractional(chain));
  if (!least.has_value()) return CannotRun(chain);
  return FractionalOptimum{.set = std::move(least->set),
                           .seconds = SecondsOf(chain, least->idle),
                           .proved = least->proved};
}

}  // namespace tidepool::chain_policies
