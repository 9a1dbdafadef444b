// SPDX-License-Identifier: Apache-2.0
// Placement: the choice of a free block of an arena for a request, and of an offset inside the
// block.
//
// A policy is a pure choice. It sees the arena only through the questions of `FreeBlocks`. Their
// answers are opaque block names. It never reads a clock, and it reads no size or address beyond
// those in its questions. Therefore one policy object serves the live pool, the trace replay and
// the search for the smallest pool, which answers the same questions for many pool sizes at once.
//
// Words: a *request* asks for bytes and carries a hint; a *block* is a contiguous run of offsets,
// free or used; a *placement* is a free block and its low end, its high end or an offset inside it.
#ifndef TIDEPOOL_PLACEMENT_H_
#define TIDEPOOL_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"

namespace tidepool {

// The caller's knowledge about the future of a request.
enum class Hint : std::uint8_t {
  kResident,     // stays on the device
  kOffloadable,  // will leave the device soon
};

// Names one block of one arena until that block is merged or split away.
using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = UINT32_MAX;

// A guess at the answer to a question about an offset, such as the answer of last time.
struct Clue {
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kFirst = -2;  // no used block lies below

  std::int64_t used_below = kNone;  // the offset of the nearest used block below
};

// The most bytes of one request: 1 PiB. Readers of traces and plans refuse larger sizes.
inline constexpr std::int64_t kMaxRequestBytes = std::int64_t{1} << 50;

// A request as a policy sees it. `bytes` is positive and already rounded up to the arena's
// alignment.
struct Request {
  std::int64_t bytes = 0;
  Hint hint = Hint::kResident;
};

// The questions that a policy may ask about the free blocks of one arena. Each answer is a block or
// `kNoBlock`, and costs O(log n) for n free blocks. Not thread-safe.
class TIDEPOOL_EXPORT FreeBlocks {
 public:
  virtual ~FreeBlocks() = default;

  // Returns the smallest block of at least `bytes`, and the one with the lowest address among
  // equals.
  virtual BlockId SmallestFit(std::int64_t bytes) = 0;
  // Returns the lowest block of exactly `bytes`.
  virtual BlockId ExactFit(std::int64_t bytes) = 0;
  // Returns the block of at least `bytes` with the lowest address.
  virtual BlockId LowestFit(std::int64_t bytes) = 0;
  // Returns the block of at least `bytes` with the highest address.
  virtual BlockId HighestFit(std::int64_t bytes) = 0;
  // Returns the block in which [offset, offset + bytes) is free. This is O(1) when `clue` is given
  // and right. A wrong clue is corrected for the next call.
  virtual BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) = 0;
  BlockId Covering(std::int64_t offset, std::int64_t bytes) {
    return Covering(offset, bytes, nullptr);
  }
};

// The answer of a policy: the free block and the offset in it that a request gets.
struct Placement {
  enum class Where : std::uint8_t { kLowEnd, kHighEnd, kOffset };

  BlockId block = kNoBlock;  // kNoBlock: the arena cannot serve the request
  Where where = Where::kLowEnd;
  std::int64_t offset = 0;  // of the used part from the arena's start; only for kOffset

  static Placement None() { return {}; }
  static Placement LowEnd(BlockId block) { return {block, Where::kLowEnd, 0}; }
  static Placement HighEnd(BlockId block) { return {block, Where::kHighEnd, 0}; }
  static Placement At(BlockId block, std::int64_t offset) {
    return {block, Where::kOffset, offset};
  }
};

// Thread-compatible: a stateless policy may be shared by arenas of one thread.
class TIDEPOOL_EXPORT PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;

  // Chooses a free block for `request`. The block must be an answer of `blocks`.
  virtual Placement Place(const Request& request, FreeBlocks& blocks) = 0;

  // Returns whether earlier calls change later choices. Only a stateful policy receives the calls
  // below. They report where a request was placed, which may differ from the policy's choice, and
  // which blocks were freed and which marks were passed. A caller may ask about a request several
  // times, and may ask without placing it.
  virtual bool IsStateful() const { return false; }
  virtual void OnPlaced(std::int64_t /*offset*/, std::int64_t /*bytes*/) {}
  virtual void OnFree(std::int64_t /*offset*/, std::int64_t /*bytes*/) {}
  virtual void OnMark(std::string_view /*name*/) {}
};

class PlacementPlan;  // planned_placement.h
using PlacementPlans = std::vector<std::shared_ptr<const PlacementPlan>>;

// The properties of a policy that a program must know before it makes the policy.
struct PlacementTraits {
  // The policy places requests where a plan has them. It is a PlannedPlacement, and accepts plans.
  bool needs_plan = false;

  bool operator==(const PlacementTraits&) const = default;
};

// The data, other than requests, that a new policy may use.
struct PlacementContext {
  PlacementPlans plans = {};  // only for a policy that needs a plan
};

// Returns the names of all policies, in the order in which tables list them.
TIDEPOOL_EXPORT std::vector<std::string> PlacementPolicyNames();

// Returns the names of the policies that have exactly these traits, in the same order.
TIDEPOOL_EXPORT std::vector<std::string> PlacementPolicyNames(const PlacementTraits& traits);

// Returns NotFound, with the known names, for an unknown policy.
TIDEPOOL_EXPORT absl::StatusOr<PlacementTraits> PlacementTraitsOf(std::string_view name);

// Returns NotFound, with the known names, for an unknown policy, and InvalidArgument for plans that
// the policy would not use.
TIDEPOOL_EXPORT absl::StatusOr<std::unique_ptr<PlacementPolicy>> MakePlacementPolicy(
    std::string_view name, const PlacementContext& context = {});

}  // namespace tidepool

#endif  // TIDEPOOL_PLACEMENT_H_
