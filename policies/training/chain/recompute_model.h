// SPDX-License-Identifier: Apache-2.0
// A chain as recomputation sees it: the memory of operations besides the data kept for others.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_MODEL_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "policies/training/transfers/transfer_problem.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::chain_policies {

// The longest chain that tables of segments serve.
inline constexpr std::size_t kMostRecomputedOperations = 512;

// Returns InvalidArgument for a chain of more operations.
absl::Status CheckRecomputedLength(const Chain& chain);
// Returns the number of slots: as many as a table fills in a second. If some are
// wanted, these as far as they take less than eight seconds. Fewer if the table would take longer
// than `seconds`.
std::size_t RecomputeSlots(std::size_t operations, std::int64_t wanted, double seconds);

// Returns the least memory in which a valid chain has a persistent schedule. O(L^3) time.
std::int64_t PersistentMemory(const Chain& chain);

// Sizes and times of a valid chain, with its optional lists filled in. It refers to the chain.
class RecomputeModel {
 public:
  explicit RecomputeModel(const Chain& chain);

  const Chain& chain() const { return chain_; }
  std::size_t operations() const { return chain_.forward_seconds.size(); }
  std::int64_t x(std::size_t i) const { return chain_.x[i]; }
  std::int64_t output(std::size_t i) const { return output_[i]; }
  double forward_seconds(std::size_t i) const { return chain_.forward_seconds[i]; }
  double backward_seconds(std::size_t i) const { return chain_.backward_seconds[i]; }
  bool may_rerun(std::size_t i) const { return !runs_once_[i]; }
  // Whether F_i may keep its output alone, and that is less than all.
  bool has_output_run(std::size_t i) const { return has_output_run_[i]; }
  // Returns the action of F_i that keeps all of x_(i+1).
  ChainAction ActionOf(std::size_t i) const;

  // The memory of an operation besides its input x_i and everything that is kept for others.
  std::int64_t ForwardBytes(std::size_t i) const;
  std::int64_t OutputBytes(std::size_t i) const {
    return has_output_run_[i] ? output_[i + 1] + output_extra_[i] : ForwardBytes(i);
  }
  // Besides x_(i+1) too.
  std::int64_t BackwardBytes(std::size_t i) const {
    return chain_.y[i + 1] + chain_.y[i] + chain_.backward_extra[i];
  }
  // The bytes of y_(i+1) while forward operations run before B_i: B_L makes its own.
  std::int64_t GradientBytes(std::size_t i) const {
    return i + 1 == operations() ? 0 : chain_.y[i + 1];
  }

 private:
  const Chain& chain_;
  std::vector<std::int64_t> output_;
  std::vector<std::int64_t> output_extra_;
  std::vector<bool> runs_once_;
  std::vector<bool> has_output_run_;
};

// Actions in their order. Their starts are not filled in.
using ChainActions = std::vector<ChainStep>;

// Gives actions the starts that they have when no operation waits, and returns the schedule without
// bounds. O(n).
ChainSchedule RunWithoutWaits(const Chain& chain, ChainActions actions);

// Returns a lower bound on the makespan of any schedule that recomputes, and transfers or not.
// While B_k runs, x_1, ..., x_k have only the memory that it leaves. Each of the others needs its
// forward operation again after B_k, or a transfer away before it and one back after it. The bound
// takes the cheapest, in part too, for the worst k. O(L^2 log L).
double RecomputeBound(const RecomputeModel& model, bool transfers);
// Returns for each k the least seconds of forward operations after B_k, when nothing is
// transferred; infinite when x_0 does not fit beside B_k. O(L^2 log L).
std::vector<double> LeastRerunSeconds(const RecomputeModel& model);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_MODEL_H_
