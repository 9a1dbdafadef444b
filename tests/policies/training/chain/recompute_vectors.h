// SPDX-License-Identifier: Apache-2.0
// Chains with the optima of an independent oracle for recomputation alone.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RECOMPUTE_VECTORS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RECOMPUTE_VECTORS_H_

#include <filesystem>

#include "tests/support/shared_files.h"

namespace tidepool::testing {

inline std::filesystem::path RecomputeVectors() { return SharedFile("vectors/recompute.json"); }

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RECOMPUTE_VECTORS_H_
