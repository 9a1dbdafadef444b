// SPDX-License-Identifier: Apache-2.0
// exact-fit-first, moDNN's two-step allocation (TPDS 2019, section 3.3): a free block of exactly
// the requested size, because blocks of one layer often have equal sizes; else the first block that
// is large enough.
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

class ExactFitFirst final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    const BlockId exact = blocks.ExactFit(request.bytes);
    return Placement::LowEnd(exact != kNoBlock ? exact : blocks.LowestFit(request.bytes));
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeExactFitFirst(const PlacementContext& /*context*/) {
  return std::make_unique<ExactFitFirst>();
}

}  // namespace tidepool
