// SPDX-License-Identifier: Apache-2.0
// The rows of the table of offload policies.
#ifndef TIDEPOOL_POLICIES_TRAINING_REGISTRY_POLICY_TABLE_H_
#define TIDEPOOL_POLICIES_TRAINING_REGISTRY_POLICY_TABLE_H_

#include "policies/training/requests/policy_table.h"

namespace tidepool::registry {

// Returns all policies. The rows live as long as the program. Thread-safe.
requests::PolicyTable AllPolicies();

}  // namespace tidepool::registry

#endif  // TIDEPOOL_POLICIES_TRAINING_REGISTRY_POLICY_TABLE_H_
