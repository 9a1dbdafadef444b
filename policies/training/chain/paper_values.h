// SPDX-License-Identifier: Apache-2.0
// Values of Beaumont et al. that no policy needs: tests and the papers' figures compare with them.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_PAPER_VALUES_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_PAPER_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain_policies {

// Relaxations of Beaumont et al. in which bytes leave and arrive one by one, as the link transfers
// them, and all offloads come before all prefetches. So none of these values is a bound of the true
// optimum. InvalidArgument for an index above L, ResourceExhausted for a set that does not fit.
//
// Returns the makespan, in seconds, when a set of activations is offloaded. O(L + n).
absl::StatusOr<double> FractionalMakespan(const Chain& chain, absl::Span<const std::size_t> set);
// Returns Theorem 2's optimum, in seconds: when an activation may be offloaded in part, the first
// M_peak - M_GPU bytes leave. O(L).
absl::StatusOr<double> EagerFractionalMakespan(const Chain& chain);

struct FractionalOptimum {
  std::vector<std::size_t> set = {};  // ascending
  double seconds = 0;                 // FractionalMakespan of the set
  bool proved = false;  // no set has a smaller one; false where the search is narrowed
};
// Returns Algorithm 1's optimum, with corrected equations: the set with the smallest
// FractionalMakespan. Time and memory as "dynprog".
absl::StatusOr<FractionalOptimum> FindFractionalOptimum(const Chain& chain);

// A memory in which a chain runs with recomputation alone.
struct RecomputeMemory {
  std::int64_t bytes = 0;
  bool proved = false;  // it does not run in less; otherwise no persistent schedule does
};
// Returns the least such memory. Up to 14 operations are searched, by halving the range of
// memories. InvalidArgument for an invalid chain and for more than 512 operations. O(L^3 + states
// L log memory).
absl::StatusOr<RecomputeMemory> LeastRecomputeMemory(const Chain& chain);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_PAPER_VALUES_H_
