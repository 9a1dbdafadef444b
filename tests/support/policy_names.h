// SPDX-License-Identifier: Apache-2.0
// The placement policies for which the exact search of sizing gives exact answers.
#ifndef TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_
#define TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_

#include <string>
#include <vector>

#include "tidepool/placement.h"

namespace tidepool::testing {

inline std::vector<std::string> NamesOfStatelessPolicies() {
  std::vector<std::string> names = PlacementPolicyNames();
  std::erase_if(names, [](const std::string& name) {
    return MakePlacementPolicy(name).value()->IsStateful();
  });
  return names;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_
