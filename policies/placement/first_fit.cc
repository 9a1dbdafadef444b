// SPDX-License-Identifier: Apache-2.0
// first-fit, the plain reference: the lowest free block that fits, at its low end.
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

class FirstFit final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    return Placement::LowEnd(blocks.LowestFit(request.bytes));
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeFirstFit(const PlacementContext& /*context*/) {
  return std::make_unique<FirstFit>();
}

}  // namespace tidepool
