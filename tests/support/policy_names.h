// The placement policies that the exact answers of sizing hold for.
#ifndef TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_
#define TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_

#include <string>
#include <vector>

#include "tidepool/placement.h"

namespace tidepool::testing {

inline std::vector<std::string> NamesOfPoliciesWithoutMemory() {
  std::vector<std::string> names = PlacementPolicyNames();
  std::erase_if(names, [](const std::string& name) {
    return MakePlacementPolicy(name).value()->HasMemory();
  });
  return names;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_POLICY_NAMES_H_
