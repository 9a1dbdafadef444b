// SPDX-License-Identifier: Apache-2.0
// best-fit, CNMeM's placement: the smallest free block that fits, the lowest address among equals,
// at its low end (vDNN++ section IV-B describes it; cnmem.cpp, findBestBlock).
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

class BestFit final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    return Placement::LowEnd(blocks.SmallestFit(request.bytes));
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeBestFit(const PlacementContext& /*context*/) {
  return std::make_unique<BestFit>();
}

}  // namespace tidepool
