// SPDX-License-Identifier: Apache-2.0
// The chain policies by name. Each is a function in a file of its own, and has a line in the
// registry. The chain is valid, and each of its operations alone fits into the memory.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_CHAIN_POLICIES_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_CHAIN_POLICIES_H_

#include "absl/status/statusor.h"
#include "policies/training/transfers/copy_rates.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/chain_policy.h"

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
