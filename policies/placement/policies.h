// The registry of placement policies: one line a policy, in the order in which tables list them.
// `Make<Name>` is defined in the policy's own file.
#ifndef TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_
#define TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_

#include <memory>

#include "tidepool/placement.h"

#define TIDEPOOL_PLACEMENT_POLICIES(POLICY)  \
  POLICY("best-fit", BestFit)                \
  POLICY("exact-fit-first", ExactFitFirst)   \
  POLICY("high-end-offload", HighEndOffload) \
  POLICY("first-fit", FirstFit)              \
  POLICY("planned", Planned)

namespace tidepool {

#define TIDEPOOL_DECLARE_POLICY(name, Class) std::unique_ptr<PlacementPolicy> Make##Class();
TIDEPOOL_PLACEMENT_POLICIES(TIDEPOOL_DECLARE_POLICY)
#undef TIDEPOOL_DECLARE_POLICY

}  // namespace tidepool

#endif  // TIDEPOOL_POLICIES_PLACEMENT_POLICIES_H_
