// SPDX-License-Identifier: Apache-2.0
// The registry of placement policies: one line per policy, in the order in which tables list them,
// with its name, its class and its traits. Each policy's own file defines its `Make<Class>`.
#ifndef TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_
#define TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_

#include <memory>

#include "tidepool/placement.h"

#define TIDEPOOL_PLACEMENT_POLICIES(POLICY)      \
  POLICY("best-fit", BestFit, {})                \
  POLICY("exact-fit-first", ExactFitFirst, {})   \
  POLICY("high-end-offload", HighEndOffload, {}) \
  POLICY("first-fit", FirstFit, {})              \
  POLICY("planned", Planned, {.needs_plan = true})

namespace tidepool {

#define TIDEPOOL_DECLARE_POLICY(name, Class, traits) \
  std::unique_ptr<PlacementPolicy> Make##Class(const PlacementContext& context);
TIDEPOOL_PLACEMENT_POLICIES(TIDEPOOL_DECLARE_POLICY)
#undef TIDEPOOL_DECLARE_POLICY

}  // namespace tidepool

#endif  // TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_
