// SPDX-License-Identifier: Apache-2.0
// Chains with exact answers of an independent oracle, on machines that have them.
#ifndef TIDEPOOL_TESTS_TRAINING_CHAIN_CHAIN_VECTORS_H_
#define TIDEPOOL_TESTS_TRAINING_CHAIN_CHAIN_VECTORS_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/shared_files.h"
#include "tidepool/training/chain.h"

namespace tidepool::testing {

inline std::filesystem::path ChainVectors() { return SharedFile("vectors/beaumont.json"); }

struct ChainVector {
  std::string name;
  Chain chain;
  nlohmann::json expect;
};

inline std::vector<ChainVector> ReadChainVectors() {
  std::vector<ChainVector> vectors;
  for (const nlohmann::json& entry : Json(ChainVectors())) {
    const std::string name = entry["name"];
    absl::StatusOr<Chain> chain = ParseChain(entry["instance"].dump(), name);
    EXPECT_TRUE(chain.ok()) << chain.status();
    if (chain.ok()) vectors.push_back({name, *std::move(chain), entry["expect"]});
  }
  return vectors;
}

// Whether two times agree to 1e-9 of the larger.
inline bool AreClose(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_CHAIN_CHAIN_VECTORS_H_
