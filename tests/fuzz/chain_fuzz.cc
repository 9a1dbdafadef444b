// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a chain is refused with one line, or it is valid, reads the same after it was
// written in either form, and its transfers have times that are no better than the bound.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "absl/strings/match.h"
#include "tidepool/training/chain.h"

namespace tidepool::fuzz {
namespace {

void RequireOfChain(bool condition) {
  if (!condition) std::abort();
}

void PlaceAll(const Chain& chain) {
  std::vector<std::size_t> set;
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) set.push_back(i);
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, OrderedTransfers(set));
  RequireOfChain(times.ok() == (LeastChainMemory(chain) <= chain.memory_bytes));
  if (times.ok()) RequireOfChain(times->seconds >= ChainLowerBound(chain) * (1 - 1e-6));
}

}  // namespace
}  // namespace tidepool::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tidepool::fuzz::RequireOfChain;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<tidepool::Chain> chain = tidepool::ParseChain(input, "input");
  if (!chain.ok()) {
    RequireOfChain(chain.status().code() == absl::StatusCode::kInvalidArgument);
    RequireOfChain(!absl::StrContains(chain.status().message(), "\n"));
    return 0;
  }
  RequireOfChain(tidepool::ValidateChain(*chain).ok());
  const auto again = tidepool::ParseChain(tidepool::ChainJson(*chain), "again");
  RequireOfChain(again.ok() && *again == *chain);
  const auto rotor = tidepool::ParseChain(tidepool::RotorChainJson(*chain), "rotor");
  if (rotor.ok()) {
    RequireOfChain(*tidepool::ParseChain(tidepool::RotorChainJson(*rotor), "again") == *rotor);
  }
  tidepool::fuzz::PlaceAll(*chain);
  return 0;
}
