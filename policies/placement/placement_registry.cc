// SPDX-License-Identifier: Apache-2.0
// Finds placement policies by name, and makes them.
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

struct RegisteredPolicy {
  const char* name;
  PlacementTraits traits;
  std::unique_ptr<PlacementPolicy> (*make)(const PlacementContext& context);
};

#define TIDEPOOL_LIST_POLICY(name, Class, traits) RegisteredPolicy{name, traits, Make##Class},
constexpr auto kPolicies =
    std::to_array<RegisteredPolicy>({TIDEPOOL_PLACEMENT_POLICIES(TIDEPOOL_LIST_POLICY)});
#undef TIDEPOOL_LIST_POLICY

// Explains names that some commands take beside those of policies; empty for all others.
std::string_view ModelText(std::string_view name) {
  if (name != "pytorch" && name != "pytorch-expandable") return "";
  return " (it models PyTorch's allocator, and is for `tidepool size` and `tidepool replay "
         "--device "
         "none` alone)";
}

absl::StatusOr<const RegisteredPolicy*> FindPolicy(std::string_view name) {
  for (const RegisteredPolicy& policy : kPolicies) {
    if (name == policy.name) return &policy;
  }
  return absl::NotFoundError(absl::StrCat("no placement policy '",
                                          absl::CHexEscape({name.data(), name.size()}), "'",
                                          std::string(ModelText(name)), ", expected one of ",
                                          absl::StrJoin(PlacementPolicyNames(), ", ")));
}

absl::Status CheckContext(const RegisteredPolicy& policy, const PlacementContext& context) {
  if (context.plans.empty() || policy.traits.needs_plan) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a plan with placement ", policy.name, ", expected placement ",
                   absl::StrJoin(PlacementPolicyNames({.needs_plan = true}), " or ")));
}

}  // namespace

std::vector<std::string> PlacementPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kPolicies.size());
  for (const RegisteredPolicy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

std::vector<std::string> PlacementPolicyNames(const PlacementTraits& traits) {
  std::vector<std::string> names;
  for (const RegisteredPolicy& policy : kPolicies) {
    if (policy.traits == traits) names.emplace_back(policy.name);
  }
  return names;
}

absl::StatusOr<PlacementTraits> PlacementTraitsOf(std::string_view name) {
  const absl::StatusOr<const RegisteredPolicy*> policy = FindPolicy(name);
  if (!policy.ok()) return policy.status();
  return (*policy)->traits;
}

absl::StatusOr<std::unique_ptr<PlacementPolicy>> MakePlacementPolicy(
    std::string_view name, const PlacementContext& context) {
  const absl::StatusOr<const RegisteredPolicy*> policy = FindPolicy(name);
  if (!policy.ok()) return policy.status();
  if (absl::Status status = CheckContext(**policy, context); !status.ok()) return status;
  return (*policy)->make(context);
}

}  // namespace tidepool
