// SPDX-License-Identifier: Apache-2.0
// A placement policy of one's own, beside best-fit on a recorded trace.
//   place_my_way TRACE
#include "check.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"

namespace {

// [policy]
// Places small requests at the low end of the arena and large requests at its high end.
class SmallLowLargeHigh : public tidepool::PlacementPolicy {
 public:
  tidepool::Placement Place(const tidepool::Request& request,
                            tidepool::FreeBlocks& blocks) override {
    constexpr std::int64_t kLargeBytes = std::int64_t{1} << 20;
    if (request.bytes < kLargeBytes) {
      return tidepool::Placement::LowEnd(blocks.LowestFit(request.bytes));
    }
    return tidepool::Placement::HighEnd(blocks.HighestFit(request.bytes));
  }
};
// [/policy]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: place_my_way TRACE\n");
    return 1;
  }
  const tidepool::Trace trace = Check(tidepool::ReadTrace(argv[1]));
  // [size]
  SmallLowLargeHigh mine;
  auto best_fit = Check(tidepool::MakePlacementPolicy("best-fit"));
  const auto with_mine = Check(tidepool::MinimumPool(trace, mine, {}));
  const auto with_best_fit = Check(tidepool::MinimumPool(trace, *best_fit, {}));
  // [/size]
  std::printf("mine %.1f MiB, best-fit %.1f MiB\n", MiB(with_mine.pool_bytes),
              MiB(with_best_fit.pool_bytes));
  return 0;
}
