// SPDX-License-Identifier: Apache-2.0
// The table of chain policies. Each policy is a function in a file of its own and a row of the
// table in chain_policy_registry.cc; `best`, offload policies and the command line iterate over it.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_CHAIN_POLICIES_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_CHAIN_POLICIES_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/budget/budget.h"
#include "policies/training/transfers/copy_rates.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::chain_policies {

// Returns the rates of copies of a chain, and the density of all copies; -1: they are raw.
inline transfers::CopyRates RatesOf(const Chain& chain, const ChainCopies& copies) {
  return {.out_bytes_per_second = chain.link_bytes_per_second,
          .in_bytes_per_second = chain.link_bytes_per_second,
          .latency_seconds = copies.latency_seconds,
          .full_duplex = copies.full_duplex,
          .compressor = copies.compressor};
}
inline double DensityOf(const ChainCopies& copies) {
  return copies.compressor.exists() ? copies.density : -1;
}

// The chain of a policy's function is valid, and each of its operations alone fits the memory.
struct ChainPolicy {
  using Make = absl::StatusOr<ChainSchedule> (*)(const Chain& chain,
                                                 const ChainPolicyOptions& options);

  std::string_view name;
  std::string_view description;  // for people, without the name
  Make make = nullptr;
  // Returns a memory in which the policy has a schedule. No search follows it where it is exact.
  std::int64_t (*enough)(const Chain& chain) = nullptr;
  bool sends = true;          // activations leave for the host
  bool recomputes = false;    // operations run again
  bool takes_copies = false;  // of any kind: both ways at once, parts, latency, a compressor

  // Whether it moves whole activations, one at a time, and runs each operation once.
  bool only_sends() const { return !recomputes && !takes_copies; }
};
// Notes in the options' `was_late` that the time limit ended a search.
inline void NoteEnd(const budget::Budget& budget, const ChainPolicyOptions& options) {
  if (budget.timed_out() && options.was_late != nullptr) *options.was_late = true;
}
// Returns the policies, quick ones before slow ones.
absl::Span<const ChainPolicy> ChainPolicies();

absl::StatusOr<ChainSchedule> MakeGreedy(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeDynprog(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeVdnnRatio(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeAutoswap(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeTflms(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakePofo(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeBest(const Chain& chain, const ChainPolicyOptions& options);
absl::StatusOr<ChainSchedule> MakeRecompute(const Chain& chain, const ChainPolicyOptions& options);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_CHAIN_POLICIES_H_
