// SPDX-License-Identifier: Apache-2.0
// The policy that recomputes: a persistent schedule, and the exact search where it is small enough.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/paper_values.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/recompute_search.h"
#include "policies/training/chain/recompute_table.h"

namespace tidepool::chain_policies {
namespace {

constexpr std::size_t kMostStates = 300'000;
// The search for the least memory is repeated.
constexpr std::size_t kMostMinimizedOperations = 14;

std::int64_t PersistentMemory(const RecomputeModel& model, const LeastMemoryTable& table) {
  return model.x(0) + table.Bytes({0, model.operations() - 1});
}

// Returns the persistent schedule that needs the least memory.
ChainSchedule SmallestSchedule(const RecomputeModel& model, const LeastMemoryTable& table) {
  ChainActions actions;
  table.AddActions({0, model.operations() - 1}, std::numeric_limits<std::size_t>::max() / 2,
                   actions);
  return RunWithoutWaits(model.chain(), std::move(actions));
}

// Returns the fastest schedule of the table, or nothing: sizes that are rounded up to slots may not
// fit, and an early end leaves the table unfinished.
std::optional<ChainSchedule> TableSchedule(const RecomputeModel& model, std::size_t slots,
                                           budget::Budget& budget) {
  const RecomputeTable table(model, model.chain().memory_bytes - model.x(0), slots, &budget);
  const Segment all{0, model.operations() - 1};
  if (std::isinf(table.Seconds(all, slots))) return std::nullopt;
  ChainActions actions;
  table.AddActions(all, slots, actions);
  return RunWithoutWaits(model.chain(), std::move(actions));
}

// Fills tables with more and more slots, so that an early end leaves the answer of a coarser one.
// All but the last take a third of its time together.
std::optional<ChainSchedule> PersistentSchedule(const RecomputeModel& model, std::size_t slots,
                                                budget::Budget& budget) {
  constexpr std::size_t kFiner = 4;
  constexpr std::size_t kLeastSlots = 20;
  const LeastMemoryTable least(model);
  if (PersistentMemory(model, least) > model.chain().memory_bytes) return std::nullopt;
  std::vector<std::size_t> divisions = {slots};
  while (divisions.back() / kFiner >= kLeastSlots) divisions.push_back(divisions.back() / kFiner);
  std::optional<ChainSchedule> finest;
  for (; !divisions.empty() && !budget.HasEnded(); divisions.pop_back()) {
    std::optional<ChainSchedule> schedule = TableSchedule(model, divisions.back(), budget);
    if (schedule.has_value()) finest = std::move(schedule);
  }
  return finest.has_value() ? std::move(finest) : SmallestSchedule(model, least);
}

void Improve(const RecomputeModel& model, budget::Budget& budget,
             std::optional<ChainSchedule>& schedule, double& bound) {
  const double seconds =
      schedule.has_value() ? schedule->seconds : std::numeric_limits<double>::infinity();
  RecomputeSearch search = SearchRecomputation(model, seconds, kMostStates, &budget);
  bound = std::max(bound, std::min(seconds, search.lower_bound));
  if (search.actions.empty()) return;
  schedule = RunWithoutWaits(model.chain(), std::move(search.actions));
}

absl::Status DoesNotFit(const RecomputeModel& model) {
  return absl::ResourceExhaustedError(
      absl::StrCat("recomputation alone finds no way in a memory of ",
                   text::ExactSize(model.chain().memory_bytes)));
}

// Returns the most bytes that one operation needs beside x_0.
std::int64_t LargestOperation(const RecomputeModel& model) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < model.operations(); ++i) {
    const std::int64_t input = i > 0 ? model.output(i) : 0;
    most = std::max({most, input + std::min(model.ForwardBytes(i), model.OutputBytes(i)),
                     input + model.x(i + 1) + model.BackwardBytes(i)});
  }
  return model.x(0) + most;
}

}  // namespace

std::int64_t PersistentMemory(const Chain& chain) {
  const RecomputeModel model(chain);
  return PersistentMemory(model, LeastMemoryTable(model));
}

absl::Status CheckRecomputedLength(const Chain& chain) {
  if (chain.forward_seconds.size() <= kMostRecomputedOperations) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(chain.forward_seconds.size(),
                                                 " forward operations, expected at most ",
                                                 kMostRecomputedOperations, " for recomputation"));
}

std::size_t RecomputeSlots(std::size_t operations, std::int64_t wanted, double seconds) {
  // A table takes operations^3 slots of time, and operations^2 slots of memory.
  const auto n = static_cast<double>(operations);
  constexpr double kStepsOfASecond = 1e9;
  const double steps = std::min(kStepsOfASecond * seconds, wanted > 0 ? 8e9 : 1e9);
  const double most = std::min({steps / (n * n * n), 6.4e7 / (n * n), 20'000.0});
  const double slots = wanted > 0 ? static_cast<double>(wanted) : most;
  return static_cast<std::size_t>(std::min(slots, std::max(most, 20.0)));
}

absl::StatusOr<ChainSchedule> MakeRecompute(const Chain& chain, const ChainPolicyOptions& options) {
  if (absl::Status status = CheckRecomputedLength(chain); !status.ok()) return status;
  const RecomputeModel model(chain);
  budget::Budget budget(options.time_limit_seconds, options.stop);
  const std::size_t slots =
      RecomputeSlots(model.operations(), options.slots, options.time_limit_seconds);
  std::optional<ChainSchedule> schedule = PersistentSchedule(model, slots, budget);
  double bound = RecomputeBound(model, false);
  const bool is_searched = options.slots == 0 && model.operations() <= kMostSearchedOperations;
  if (is_searched) Improve(model, budget, schedule, bound);
  NoteEnd(budget, options);
  if (!schedule.has_value()) return DoesNotFit(model);
  schedule->proved = bound >= schedule->seconds * (1 - kEqualSeconds);
  schedule->lower_bound_seconds = schedule->proved ? schedule->seconds : bound;
  return *std::move(schedule);
}

absl::StatusOr<RecomputeMemory> LeastRecomputeMemory(const Chain& chain) {
  if (absl::Status status = ValidateChain(chain); !status.ok()) return status;
  if (absl::Status status = CheckRecomputedLength(chain); !status.ok()) return status;
  Chain smaller = chain;
  const RecomputeModel model(smaller);
  RecomputeMemory least{PersistentMemory(model, LeastMemoryTable(model)),
                        model.operations() <= kMostMinimizedOperations};
  std::int64_t too_small = LargestOperation(model) - 1;
  while (least.proved && too_small + 1 < least.bytes) {
    smaller.memory_bytes = too_small + (least.bytes - too_small) / 2;
    const RecomputeSearch search =
        SearchRecomputation(model, std::numeric_limits<double>::infinity(), kMostStates);
    least.proved = search.is_complete;
    (search.actions.empty() ? too_small : least.bytes) = smaller.memory_bytes;
  }
  return least;
}

}  // namespace tidepool::chain_policies
