// SPDX-License-Identifier: Apache-2.0
// planned: each request of an iteration gets the offset that a plan has for it. Only the sizes of
// requests identify their position in the plan. After a deviation, requests are compared with every
// explanation: additional, replaced or missing requests.
#include <algorithm>
#include <limits>
#include <utility>

#include "policies/placement/policies.h"
#include "tidepool/planned_placement.h"

namespace tidepool {

PlacementPlan::PlacementPlan(std::vector<PlannedRequest> requests)
    : requests_(std::move(requests)), signatures_{0} {
  signatures_.reserve(requests_.size() + 1);
  for (const PlannedRequest& request : requests_) {
    signatures_.push_back(Extend(signatures_.back(), request.bytes));
    if (request.offset != PlannedRequest::kAnywhere) {
      // Plans are not checked yet, so this avoids overflow for any numbers.
      const std::int64_t bytes = std::max<std::int64_t>(request.bytes, 0);
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() - bytes;
      height_bytes_ = std::max(height_bytes_, std::min(request.offset, most) + bytes);
    }
  }
}

std::uint64_t PlacementPlan::Extend(std::uint64_t signature, std::int64_t bytes) {
  const std::uint64_t mixed =
      ((signature + 1) * 0x9E3779B97F4A7C15) ^ static_cast<std::uint64_t>(bytes);
  return (mixed ^ mixed >> 29) * 0xD6E8FEB86659FD93;
}

namespace {

// Limits after which the iteration no longer counts as the plan's: unmatched requests in a row, and
// in all, the latter plus half of the plan's requests.
constexpr std::size_t kMostLost = 256;
constexpr std::size_t kMostStrayed = 16;
// How many requests ahead in the plan to compare: this many, and more with every unmatched request.
constexpr std::size_t kLookAhead = 64;
constexpr std::size_t kLookAheadPerLost = 4;

constexpr std::size_t kNone = SIZE_MAX;

struct KnownPlan {
  std::shared_ptr<const PlacementPlan> plan;
  std::vector<Clue> clues;  // one per request
};

// The assumed position of a request in a plan.
struct Match {
  KnownPlan* known = nullptr;
  std::size_t at = kNone;  // index of a request of the plan
  bool is_guess = false;   // only its size matches a later one, which is weak evidence

  const PlannedRequest& request() const { return known->plan->requests()[at]; }
};

class Planned final : public PlannedPlacement {
 public:
  explicit Planned(PlacementPlans plans) { BeginIteration(std::move(plans)); }

  void BeginIteration(PlacementPlans plans) override {
    CountMissing();
    std::vector<KnownPlan> known;
    known.reserve(plans.size());
    std::size_t from = 0;
    for (std::shared_ptr<const PlacementPlan>& plan : plans) {
      known.push_back(TakeKnown(std::move(plan), from));
    }
    plans_ = std::move(known);
    Rewind();
  }

  bool IsStateful() const override { return true; }
  bool IsAtEnd() const override { return known_ != nullptr && next_ == requests().size(); }
  const PlacementPlan* followed() const override {
    return known_ == nullptr ? nullptr : known_->plan.get();
  }
  PlannedCounts counts() const override { return counts_; }

  Placement Place(const Request& request, FreeBlocks& blocks) override {
    if (IsAtEnd() && OtherThatBegins(request.bytes) == nullptr) [[unlikely]]
      Rewind();
    match_ = Find(request.bytes);
    if (match_.at != kNone && match_.request().offset != PlannedRequest::kAnywhere) {
      const std::int64_t offset = match_.request().offset;
      const BlockId block = blocks.Covering(offset, request.bytes, &match_.known->clues[match_.at]);
      if (block != kNoBlock) [[likely]]
        return Placement::At(block, offset);
    }
    // The plan fills memory from below, so it needs the highest block last.
    return known_ == nullptr ? Placement::LowEnd(blocks.SmallestFit(request.bytes))
                             : Placement::HighEnd(blocks.HighestFit(request.bytes));
  }

  void OnPlaced(std::int64_t offset, std::int64_t bytes) override {
    if (known_ == nullptr) return;
    const bool is_planned =
        match_.at != kNone && (match_.request().offset == offset || match_.request().offset < 0);
    ++(is_planned ? counts_.planned : counts_.deviations);
    if (match_.at == kNone || match_.is_guess) {
      CountUnmatched();
    } else {
      FollowMatch();
    }
    last_bytes_ = bytes;
  }

 private:
  const std::vector<PlannedRequest>& requests() const { return known_->plan->requests(); }

  // Returns the plan with its clues, if it was known before. Searches from index `from`, next to
  // the last one found, because plans mostly come in the same order again.
  KnownPlan TakeKnown(std::shared_ptr<const PlacementPlan> plan, std::size_t& from) {
    for (std::size_t i = 0; i < plans_.size(); ++i, ++from) {
      if (from >= plans_.size()) from = 0;
      if (plans_[from].plan == plan) return std::move(plans_[from++]);
    }
    std::vector<Clue> clues;
    clues.reserve(plan->requests().size());
    for (const PlannedRequest& request : plan->requests()) clues.push_back(request.clue);
    return {std::move(plan), std::move(clues)};
  }

  void Rewind() {
    known_ = plans_.empty() || plans_.front().plan->requests().empty() ? nullptr : &plans_.front();
    next_ = 0;
    lost_ = 0;
    guess_ = kNone;
    strayed_ = 0;
    match_ = {};
  }

  // Counts the requests that the plan still has when the iteration ends. When no request matched,
  // the requests may have been the end of the iteration before.
  void CountMissing() {
    if (known_ == nullptr || (next_ == 0 && guess_ == kNone) || IsAllOfAPlan()) return;
    CountSkipped(requests().size());
  }

  // Counts the plan's requests before `at` that did not come, except those that others replaced:
  // these are counted already.
  void CountSkipped(std::size_t at) {
    const std::size_t skipped = at - next_;
    counts_.deviations += static_cast<std::int64_t>(skipped - std::min(skipped, lost_));
  }

  // Returns whether the iteration was exactly a plan: the followed one, or a shorter one with which
  // the followed one begins.
  bool IsAllOfAPlan() const {
    if (strayed_ > 0) return false;
    const std::uint64_t signature = known_->plan->SignatureOfFirst(next_);
    return std::ranges::any_of(plans_, [&](const KnownPlan& other) {
      return other.plan->requests().size() == next_ && other.plan->signature() == signature;
    });
  }

  bool HasSize(std::size_t at, std::int64_t bytes) const {
    return at < requests().size() && requests()[at].bytes == bytes;
  }

  Match Find(std::int64_t bytes) {
    if (known_ == nullptr) return {};
    // Two sizes in a row are stronger evidence than the size of the plan's first request. Otherwise
    // labels as large as the first weight, which stayed, would count as that weight.
    if (next_ == 0 && guess_ != kNone && HasSize(guess_ + 1, bytes)) return {known_, guess_ + 1};
    if (HasSize(next_, bytes)) [[likely]]
      return {known_, next_};  // as planned, maybe after additional requests
    if (lost_ == 0) {
      if (KnownPlan* other = OtherThatBegins(bytes)) return {other, next_};
    } else if (guess_ != kNone && HasSize(guess_ + 1, bytes)) {
      return {known_, guess_ + 1};  // the guess was right, and some requests did not come
    } else if (HasSize(next_ + lost_, bytes)) {
      return {known_, next_ + lost_};  // after replaced requests
    }
    return FindAhead(bytes);
  }

  // Finds the position by two sizes in a row; a single size is a guess. Resident memory, such as
  // weights, comes from an iteration before, so the first requests of a plan may all be missing.
  Match FindAhead(std::int64_t bytes) const {
    const std::size_t end =
        next_ == 0 ? requests().size()
                   : std::min(next_ + kLookAhead + kLookAheadPerLost * lost_, requests().size());
    std::size_t guess = kNone;
    for (std::size_t at = next_ + 1; at < end; ++at) {
      if (!HasSize(at, bytes)) continue;
      if (lost_ > 0 && HasSize(at - 1, last_bytes_)) return {known_, at};
      if (guess == kNone) guess = at;
    }
    return {known_, guess, true};
  }

  // Returns another plan that begins as this iteration did, and continues with `bytes`.
  KnownPlan* OtherThatBegins(std::int64_t bytes) {
    if (strayed_ > 0) return nullptr;
    const std::uint64_t signature = known_->plan->SignatureOfFirst(next_);
    for (KnownPlan& other : plans_) {
      const std::vector<PlannedRequest>& others = other.plan->requests();
      if (others.size() > next_ && others[next_].bytes == bytes &&
          other.plan->SignatureOfFirst(next_) == signature) {
        return &other;
      }
    }
    return nullptr;
  }

  void FollowMatch() {
    CountSkipped(match_.at);
    known_ = match_.known;
    next_ = match_.at + 1;
    lost_ = 0;
    guess_ = kNone;
  }

  void CountUnmatched() {
    guess_ = match_.at;
    const std::size_t most_strayed = kMostStrayed + requests().size() / 2;
    if (++lost_ > kMostLost || ++strayed_ > most_strayed) known_ = nullptr;
  }

  std::vector<KnownPlan> plans_;
  KnownPlan* known_ = nullptr;   // the plan that is followed
  std::size_t next_ = 0;         // of its requests
  std::size_t lost_ = 0;         // unmatched requests since the last matched one
  std::size_t guess_ = kNone;    // assumed position of the last of them
  std::int64_t last_bytes_ = 0;  // of the last request
  std::size_t strayed_ = 0;      // requests of this iteration that did not match
  Match match_;                  // for the last request that Place was asked about
  PlannedCounts counts_;
};

}  // namespace

std::unique_ptr<PlannedPlacement> PlannedPlacement::Create(PlacementPlans plans) {
  return std::make_unique<Planned>(std::move(plans));
}

std::unique_ptr<PlacementPolicy> MakePlanned(const PlacementContext& context) {
  return PlannedPlacement::Create(context.plans);
}

}  // namespace tidepool
