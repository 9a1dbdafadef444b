// SPDX-License-Identifier: Apache-2.0
// high-end-offload, vDNN++'s "non-offloaded high end allocation" (IPDPS 2019, section IV-B):
// offloadable data takes the highest available address, so that after the forward pass the
// remaining data is one used block at the low end. All other data is placed by best-fit.
#include "policies/placement/policies.h"

namespace tidepool {
namespace {

class HighEndOffload final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    if (request.hint == Hint::kOffloadable) {
      return Placement::HighEnd(blocks.HighestFit(request.bytes));
    }
    return Placement::LowEnd(blocks.SmallestFit(request.bytes));
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeHighEndOffload(const PlacementContext& /*context*/) {
  return std::make_unique<HighEndOffload>();
}

}  // namespace tidepool
