// Finds a placement policy by its name.
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

struct NamedPolicy {
  const char* name;
  std::unique_ptr<PlacementPolicy> (*make)();
};

#define TIDEPOOL_LIST_POLICY(name, Class) NamedPolicy{name, Make##Class},
constexpr auto kPolicies =
    std::to_array<NamedPolicy>({TIDEPOOL_PLACEMENT_POLICIES(TIDEPOOL_LIST_POLICY)});
#undef TIDEPOOL_LIST_POLICY

}  // namespace

std::vector<std::string> PlacementPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kPolicies.size());
  for (const NamedPolicy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<std::unique_ptr<PlacementPolicy>> MakePlacementPolicy(std::string_view name) {
  for (const NamedPolicy& policy : kPolicies) {
    if (name == policy.name) return policy.make();
  }
  return absl::NotFoundError(
      absl::StrCat("no placement policy '", absl::CHexEscape({name.data(), name.size()}),
                   "', expected one of ", absl::StrJoin(PlacementPolicyNames(), ", ")));
}

}  // namespace tidepool
