// SPDX-License-Identifier: Apache-2.0
// Steps all different arenas through the trace side by side. An arena divides where its pools
// disagree about a placement. Two arenas become one again when every live allocation has the same
// offset in both. That happens often at the end of an iteration, so their number stays small over
// long traces.
#include "lib/trace/sizing/exact_pool.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/trace/sizing/many_pools_arena.h"

namespace tidepool::sizing {
namespace {

constexpr std::int64_t kEventsBetweenMerges = 16;
// Copying an arena with this many live allocations takes as long as an event.
constexpr std::int64_t kAllocationsCopiedInAStep = 32;

std::uint64_t Mix(std::uint64_t value) {
  value = (value ^ value >> 32) * 0x9E3779B97F4A7C15;
  value = (value ^ value >> 29) * 0xBF58476D1CE4E5B9;
  return value ^ value >> 32;
}

// One arena and the blocks of the live allocations in it.
class Branch {
 public:
  Branch(PoolSet pools, std::int64_t addresses, const TraceLoad& load, std::int64_t alignment)
      : arena_(std::move(pools), addresses, alignment), placed_(load.peak_live_count, kNoBlock) {}

  ManyPoolsArena& arena() { return arena_; }
  const ManyPoolsArena& arena() const { return arena_; }
  std::uint64_t fingerprint() const { return fingerprint_; }

  void Allocate(const Step& step, const Placement& placement) {
    placed_[step.slot] = arena_.Allocate(placement, step.bytes);
    fingerprint_ += Fingerprint(step.slot);
  }

  void Free(const Step& step) {
    fingerprint_ -= Fingerprint(step.slot);
    arena_.Free(placed_[step.slot]);
    placed_[step.slot] = kNoBlock;
  }

  bool HasPlacesOf(const Branch& other) const {
    for (std::size_t slot = 0; slot < placed_.size(); ++slot) {
      if ((placed_[slot] == kNoBlock) != (other.placed_[slot] == kNoBlock)) return false;
      if (placed_[slot] != kNoBlock &&
          arena_.address(placed_[slot]) != other.arena_.address(other.placed_[slot])) {
        return false;
      }
    }
    return true;
  }

 private:
  std::uint64_t Fingerprint(std::uint32_t slot) const {
    return Mix(Mix(slot + 1) + static_cast<std::uint64_t>(arena_.address(placed_[slot])));
  }

  ManyPoolsArena arena_;
  std::vector<BlockId> placed_;  // by slot
  std::uint64_t fingerprint_ = 0;
};

class Search {
 public:
  Search(const std::vector<Step>& steps, const TraceLoad& load, PlacementPolicy& policy,
         const MinimumPoolOptions& options, std::int64_t most_pieces, const PoolQuestion& question,
         budget::Budget& budget)
      : steps_(steps),
        policy_(policy),
        budget_(budget),
        steps_left_(options.most_steps),
        steps_to_divide_(load.peak_live_count / kAllocationsCopiedInAStep),
        most_pieces_(most_pieces),
        serving_pool_(question.serving_pool),
        larger_fails_(question.larger_fails) {
    PoolSet pools({load.peak_live_bytes, serving_pool_});
    if (!larger_fails_) {
      pools = pools.Union(PoolSet({serving_pool_ + options.alignment, kUnbounded}));
    }
    if (pools.empty()) return;
    branches_.push_back(std::make_unique<Branch>(std::move(pools),
                                                 ManyPoolsArena::Addresses(load, options.alignment),
                                                 load, options.alignment));
  }

  PoolOutcome Run() {
    for (std::size_t i = 0; i < steps_.size() && !branches_.empty(); ++i) {
      if (budget_.HasEnded()) DropFrom(0, ExactLimit::kTime);
      if (i % kEventsBetweenMerges == 0 || CountPieces() > most_pieces_) {
        MergeEqual();
        Prune(static_cast<std::int64_t>(steps_.size() - i));
      }
      Advance(steps_[i]);
    }
    for (const auto& branch : branches_) {
      outcome_.serving = outcome_.serving.Union(branch->arena().pools());
    }
    outcome_.larger_fails = larger_fails_;
    return std::move(outcome_);
  }

 private:
  std::int64_t CountPieces() const { return static_cast<std::int64_t>(branches_.size()); }

  void Advance(const Step& step) {
    steps_left_ -= CountPieces();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < branches_.size(); ++i) {  // grows while branches divide
      bool lives = KeepRelevant(branches_[i]->arena());
      if (lives && step.bytes == 0) {
        branches_[i]->Free(step);
      } else if (lives) {
        lives = Allocate(step, i);
      }
      if (lives) std::swap(branches_[kept++], branches_[i]);
    }
    branches_.resize(kept);
  }

  // Once a pool above the serving one is known to fail, drops all pools above the serving one.
  bool KeepRelevant(ManyPoolsArena& arena) const {
    if (!larger_fails_ || arena.pools().end() <= serving_pool_) return true;
    PoolSet smaller = arena.pools().Intersection({0, serving_pool_});
    if (smaller.empty()) return false;
    arena.set_pools(std::move(smaller));
    return true;
  }

  // Serves `step` in branch `i` and adds a branch for the pools that place it elsewhere. Returns
  // false when the pools of branch `i` fail or are dropped.
  bool Allocate(const Step& step, std::size_t i) {
    ManyPoolsArena& arena = branches_[i]->arena();
    PoolSet others;
    const Placement placement = arena.Choose({step.bytes, step.hint}, policy_, &others);
    const bool fails = placement.block == kNoBlock;
    if (arena.is_undetermined() || (!fails && !arena.HasAddresses(placement, step.bytes))) {
      outcome_.unknown = outcome_.unknown.Union(arena.pools()).Union(others);
      NoteLimit(ExactLimit::kUnsearchable);
      return false;
    }
    if (fails) {
      larger_fails_ |= arena.pools().end() > serving_pool_;
      if (others.empty()) return false;
      arena.set_pools(std::move(others));
      return Allocate(step, i);
    }
    if (!others.empty()) {
      steps_left_ -= steps_to_divide_;
      branches_.push_back(std::make_unique<Branch>(*branches_[i]));
      branches_.back()->arena().set_pools(std::move(others));
    }
    branches_[i]->Allocate(step, placement);
    return true;
  }

  void MergeEqual() {
    absl::flat_hash_map<std::uint64_t, std::size_t> first;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      const auto [found, is_new] = first.try_emplace(branches_[i]->fingerprint(), kept);
      if (!is_new && branches_[found->second]->HasPlacesOf(*branches_[i])) {
        ManyPoolsArena& arena = branches_[found->second]->arena();
        arena.set_pools(arena.pools().Union(branches_[i]->arena().pools()));
      } else {
        std::swap(branches_[kept++], branches_[i]);
      }
    }
    branches_.resize(kept);
  }

  // Drops the largest pools when there are too many branches to keep, or to step to the end.
  void Prune(std::int64_t steps_to_go) {
    outcome_.pieces = std::max(outcome_.pieces, CountPieces());
    const std::int64_t affordable = std::max<std::int64_t>(steps_left_ / steps_to_go, 1);
    if (CountPieces() <= std::min(affordable, most_pieces_)) return;
    std::sort(branches_.begin(), branches_.end(), [](const auto& a, const auto& b) {
      return a->arena().pools().min() < b->arena().pools().min();
    });
    if (affordable < most_pieces_) {
      DropFrom(static_cast<std::size_t>(affordable), ExactLimit::kSteps);
    } else {
      DropFrom(static_cast<std::size_t>(most_pieces_), ExactLimit::kPieces);
    }
  }

  void DropFrom(std::size_t first, ExactLimit limit) {
    for (std::size_t i = first; i < branches_.size(); ++i) {
      outcome_.unknown = outcome_.unknown.Union(branches_[i]->arena().pools());
    }
    branches_.resize(first);
    NoteLimit(limit);
  }

  void NoteLimit(ExactLimit limit) {
    if (outcome_.limit == ExactLimit::kNone) outcome_.limit = limit;
  }

  const std::vector<Step>& steps_;
  PlacementPolicy& policy_;
  budget::Budget& budget_;
  std::int64_t steps_left_;
  std::int64_t steps_to_divide_;
  std::int64_t most_pieces_;
  std::int64_t serving_pool_;
  bool larger_fails_;
  std::vector<std::unique_ptr<Branch>> branches_;
  PoolOutcome outcome_;
};

}  // namespace

std::int64_t MostPieces(const TraceLoad& load, std::int64_t most_places) {
  return std::max<std::int64_t>(most_places / std::max<std::int64_t>(load.peak_live_count, 1), 1);
}

PoolOutcome SimulateAllPools(const std::vector<Step>& steps, const TraceLoad& load,
                             PlacementPolicy& policy, const MinimumPoolOptions& options,
                             std::int64_t most_pieces, const PoolQuestion& question,
                             budget::Budget& budget) {
  return Search(steps, load, policy, options, most_pieces, question, budget).Run();
}

}  // namespace tidepool::sizing
