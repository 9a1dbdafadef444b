// SPDX-License-Identifier: Apache-2.0
// The arena in the form that the placement benchmarks use.
#ifndef TIDEPOOL_BENCH_SUPPORT_ARENA_ENGINE_H_
#define TIDEPOOL_BENCH_SUPPORT_ARENA_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/memory/blocks/arena.h"
#include "tidepool/placement.h"

namespace tidepool::bench {

// The arena with its offset-keyed interface, as a pool would use it. Every fourth request is
// offloadable.
class ArenaEngine {
 public:
  explicit ArenaEngine(std::string_view policy, std::int64_t alignment = 512)
      : policy_(MakePlacementPolicy(policy).value()), arena_(kCapacity, alignment, *policy_) {}

  std::int64_t Allocate(std::int64_t bytes) {
    return arena_.Allocate(bytes, (++requests_ & 3) == 0 ? Hint::kOffloadable : Hint::kResident);
  }
  void Free(std::int64_t offset) { arena_.Free(offset); }

  const blocks::Arena& arena() const { return arena_; }

 private:
  static constexpr std::int64_t kCapacity = std::int64_t{16} << 40;  // no request is refused

  std::unique_ptr<PlacementPolicy> policy_;
  blocks::Arena arena_;
  std::uint64_t requests_ = 0;
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_ARENA_ENGINE_H_
