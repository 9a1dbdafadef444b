// SPDX-License-Identifier: Apache-2.0
// An iteration without a plan gets one, and a plan that no longer matches its iterations is made
// again. The number of both is limited: otherwise iterations that never repeat would keep a
// processor busy for nothing. If plans serve too few iterations, the pool makes no plans for a
// while.
#include "lib/memory/pool/iterations.h"

#include <algorithm>
#include <utility>

#include "lib/memory/pool/pool_options.h"

namespace tidepool::pool {
namespace {

// An iteration matches its plan if less than 1/kLikePart of its requests deviate. Iterations that
// do not match may outnumber those that do by kMostUnlike.
constexpr std::int64_t kLikePart = 8;
constexpr int kMostUnlike = 4;

// A plan for the next iteration alone is made at its mark, so it must not take long. If iterations
// do not repeat, it is of no use: after kMostUnusedNext such plans no more are made.
constexpr std::size_t kMostNextRequests = 1 << 14;
constexpr std::size_t kMostLeft = 1024;
constexpr int kMostUnusedNext = 4;

// Memory that a new plan leaves unused is given back at its first marks. Some of it is free only
// after the first iteration with the plan: the iteration before left buffers in it.
constexpr int kGiveBacksOfPlan = 3;

std::size_t CountAlike(const std::vector<PlannedRequest>& a, const std::vector<PlannedRequest>& b) {
  const auto differs =
      std::ranges::mismatch(a, b, {}, &PlannedRequest::bytes, &PlannedRequest::bytes);
  return static_cast<std::size_t>(differs.in1 - a.begin());
}

// Whether a longer plan begins with at least half of the sizes of `plan`, but at other offsets.
bool IsAtOdds(const PlacementPlan& plan, const PlacementPlan& longer) {
  const std::vector<PlannedRequest>& requests = plan.requests();
  const std::size_t alike = CountAlike(requests, longer.requests());
  if (requests.size() >= longer.requests().size() || 2 * alike < requests.size()) return false;
  const auto end = requests.begin() + static_cast<std::ptrdiff_t>(alike);
  return !std::equal(requests.begin(), end, longer.requests().begin(),
                     [](const auto& a, const auto& b) { return a.offset == b.offset; });
}

}  // namespace

Iterations::Iterations(PlannedPlacement& policy, const PoolOptions& options)
    : policy_(policy),
      alignment_(options.alignment),
      seconds_(options.plan_seconds),
      most_plans_(static_cast<std::size_t>(options.most_plans)),
      max_bytes_(options.max_bytes),
      address_bytes_(options.memory == PoolMemory::kSegments ? 0 : MappedAddressBytes(options)),
      rest_(most_plans_) {
  if (options.plan == nullptr) return;
  known_.push_back({.plans = {options.plan}, .is_used = true});
  is_logging_ = true;
}

void Iterations::OnAllocate(BlockId block, std::int64_t bytes, std::int64_t live_bytes,
                            std::uint32_t stream) {
  most_live_ = std::max(most_live_, live_bytes + bytes);
  if (is_logging_) {
    log_.Allocate(block, bytes, stream);
    if (log_.IsFull()) {
      log_.Begin(
          rest_.is_resting());  // the log is of no use, and the next iteration may never come
      is_logging_ = false;
    }
  }
  if (!is_marked_ && policy_.followed() == nullptr) FindPeriod(bytes, live_bytes);
}

// The iterations that were found may differ from the marked ones.
void Iterations::Mark() {
  if (std::exchange(is_marked_, true)) return;
  finder_.Reset();
  until_boundary_ = kUnknown;
}

// Finds iterations by repetition, as long as no plan is followed.
void Iterations::FindPeriod(std::int64_t bytes, std::int64_t live_bytes) {
  finder_.Add(bytes, live_bytes);
  const std::size_t period = finder_.period();
  if (period == 0) {
    until_boundary_ = kUnknown;
    is_logging_ = false;
  } else if (until_boundary_ == kUnknown) {
    until_boundary_ = finder_.UntilBoundary();
  } else {
    --until_boundary_;
  }
}

bool Iterations::End() {
  const bool was_resting = rest_.is_resting();
  // A plan that was ordered before a rest is of no use in it, and out of date after it.
  for (IterationPlans& made : planner_.TakeFinished()) {
    if (!was_resting) Take(std::move(made));
  }
  const bool was_logged = std::exchange(is_logging_, false) && log_.requests() > 0;
  if (was_logged) ++iterations_;
  if (was_logged) CountForRest();
  if (was_resting) return false;
  if (rest_.is_resting()) {
    BeginRest();
    return false;
  }
  if (was_logged && !is_marked_ && policy_.followed() != nullptr) Compare();
  if (was_logged && next_ != nullptr) {
    unused_next_ = next_->signature() == log_.signature() ? 0 : unused_next_ + 1;
  }
  next_ = nullptr;
  wants_plan_ = was_logged && WantsPlan(log_.signature(), log_.requests());
  wants_next_ = was_logged && WantsNext();
  return wants_plan_ || wants_next_;
}

void Iterations::CountForRest() {
  const std::int64_t planned = policy_.counts().planned - counts_.planned;
  const bool was_served = 2 * planned >= static_cast<std::int64_t>(log_.requests());
  if (is_marked_) {
    rest_.CountMarked(log_.signature(), was_served);
  } else {
    rest_.CountFound(log_.signature(), was_served);
  }
}

// Forgets all plans: after the rest everything is as in the beginning.
void Iterations::BeginRest() {
  known_.clear();
  seen_.clear();
  base_ = 0;
  unlike_ = 0;
  unused_ = 0;
}

// Compares an iteration with its plan. A plan that the program does not follow may still match a
// part of its requests, and so end iterations in the middle. Then all plans rest until a period is
// found.
void Iterations::Compare() {
  const PlannedCounts counts = policy_.counts();
  const std::int64_t deviations = counts.deviations - counts_.deviations;
  const bool is_unlike = kLikePart * deviations > counts.planned - counts_.planned;
  unlike_ = is_unlike ? unlike_ + 1 : std::max(0, unlike_ - 1);
}

bool Iterations::WantsPlan(std::uint64_t signature, std::size_t requests) {
  const auto known = FindKnown(signature);
  if (known == known_.end()) {
    if (most_plans_ == 0 || planner_.IsPlanning(signature)) return false;
    // How the next iteration frees the memory that this one leaves is known after two of a kind.
    const bool is_known = log_.FreesAll() || log_.RepeatsLast();
    return (is_known && unused_ < most_plans_) || WasSeen(signature);
  }
  Known used = std::move(*known);
  known_.erase(known);
  if (!std::exchange(used.is_used, true)) unused_ = 0;
  const std::int64_t planned = policy_.counts().planned - counts_.planned;
  used.failures = planned == static_cast<std::int64_t>(requests) ? 0 : used.failures + 1;
  const bool has_failed = used.failures > used.patience && most_plans_ > 0;
  if (has_failed) {
    used.failures = 0;
    used.patience = std::min(2 * used.patience, 1 << 20);
  }
  if (used.is_offered) used.TakeTurn();
  known_.push_front(std::move(used));
  return has_failed && !planner_.IsPlanning(signature);
}

// Whether an iteration of the same kind was among the last ones without a plan.
bool Iterations::WasSeen(std::uint64_t signature) {
  const auto seen = std::find(seen_.begin(), seen_.end(), signature);
  const bool was_seen = seen != seen_.end();
  if (was_seen) seen_.erase(seen);
  seen_.push_front(signature);
  if (seen_.size() > 4 * most_plans_) seen_.pop_back();
  return was_seen;
}

// Whether the next iteration gets a plan of its own. Iterations that were found are left alone: a
// request begins them, and would take long.
bool Iterations::WantsNext() const {
  if (!is_marked_ || most_plans_ == 0 || iterations_ < 2 || unused_next_ > kMostUnusedNext ||
      log_.requests() > kMostNextRequests) {
    return false;
  }
  const auto known = std::ranges::find_if(
      known_, [&](const Known& each) { return each.last().signature() == log_.signature(); });
  return known == known_.end() || known->tries > 0;
}

void Iterations::Plan(LiveMemory live) {
  if (wants_plan_) OrderPlan(live);
  if (wants_next_) MakeNext(std::move(live));
}

void Iterations::MakeNext(LiveMemory live) {
  if (live.own.size() > kMostLeft) return;
  NextOrder order;
  order.iteration = &log_.log();
  order.alignment = alignment_;
  order.fixed = BeyondBase(live.fixed);
  if (base_ > 0) order.fixed.push_back({0, base_});
  order.left = LeftRanges(std::move(live.own));
  const auto known = FindKnown(log_.signature());
  if (known != known_.end()) {
    MakeNextFor(*known, order);
  } else if (const absl::StatusOr<NextPlan> next = PlanNext(order); next.ok()) {
    next_ = next->plan;
  }
}

// Finds a turn that can follow the next iteration.
void Iterations::MakeNextFor(Known& known, NextOrder& order) {
  --known.tries;
  for (std::size_t i = 0; i < known.plans.size(); ++i, known.TakeTurn()) {
    order.later = known.next().get();
    const absl::StatusOr<NextPlan> next = PlanNext(order);
    if (!next.ok()) continue;
    if (next_ == nullptr || next->ends_as_later) next_ = next->plan;
    if (!next->ends_as_later) continue;
    known.tries = 0;
    return;
  }
}

// Returns when the memory that the ended iteration leaves is free: after as many events as the
// memory that it found. Where the iteration before made other requests, sizes tell which are which.
std::vector<LeftRange> Iterations::LeftRanges(std::vector<LiveMemory::Own> own) const {
  std::vector<CarriedFree> frees = log_.carried_frees();
  std::ranges::sort(own, {}, &LiveMemory::Own::request);
  std::ranges::sort(frees, {}, &CarriedFree::request);
  const bool is_alike = log_.RepeatsLast();
  std::vector<LeftRange> left;
  left.reserve(own.size());
  for (const LiveMemory::Own& each : own) {
    if (each.range.begin < base_) continue;
    const auto free = std::ranges::find_if(frees, [&](const CarriedFree& carried) {
      return is_alike ? carried.request == each.request : carried.bytes == each.range.bytes();
    });
    left.push_back({each.range, free == frees.end() ? INT64_MAX : free->events});
    if (free != frees.end()) frees.erase(free);
  }
  return left;
}

// The base lies between blocks when it is chosen; a block that lies across it came later.
std::vector<Range> Iterations::BeyondBase(const std::vector<Range>& ranges) const {
  std::vector<Range> beyond;
  for (const Range& range : ranges) {
    if (range.end > base_) beyond.push_back({std::max(range.begin, base_), range.end});
  }
  return beyond;
}

// Returns the addresses after all fixed memory, as far as there is memory for all that is live and
// for a plan there.
std::optional<Range> Iterations::Apart(const LiveMemory& live) const {
  if (!is_marked_ || live.fixed.empty() || live.fixed.back().end <= base_) return std::nullopt;
  std::int64_t left_bytes = max_bytes_;
  for (const Range& range : live.fixed) left_bytes -= range.bytes();
  for (const LiveMemory::Own& own : live.own) left_bytes -= own.range.bytes();
  const std::int64_t begin = live.fixed.back().end;
  return Range{begin, std::min(address_bytes_, begin + left_bytes)};
}

void Iterations::OrderPlan(const LiveMemory& live) {
  PlanOrder order;
  order.alignment = alignment_;
  order.seconds = seconds_;
  order.signature = log_.signature();
  order.base = base_;
  order.fixed = BeyondBase(live.fixed);
  order.apart = Apart(live);
  if (log_.RepeatsLast()) order.carried_frees = log_.carried_frees();
  order.iteration = log_.log();
  FindAlike(order);
  planner_.Start(std::move(order));
}

// Finds the other plan that begins like the iteration for the most requests.
void Iterations::FindAlike(PlanOrder& order) const {
  const std::vector<std::int64_t>& sizes = order.iteration.bytes;
  for (const Known& known : known_) {
    if (known.last().signature() == order.signature) continue;
    const std::vector<PlannedRequest>& requests = known.last().requests();
    const auto differs = std::mismatch(
        requests.begin(), requests.end(), sizes.begin(), sizes.end(),
        [](const auto& request, std::int64_t bytes) { return request.bytes == bytes; });
    const auto alike = static_cast<std::size_t>(differs.first - requests.begin());
    if (alike <= order.requests_alike) continue;
    order.requests_alike = alike;
    order.alike = known.plans.back();
  }
}

PlanNeeds Iterations::Begin() {
  // When the pool found the iteration by itself, it knows its kind.
  const bool is_found = until_boundary_ == 0;
  const std::uint64_t signature = is_found ? finder_.Signature() : 0;
  const bool is_lost = unlike_ > kMostUnlike;
  if (is_lost) unlike_ = 0;
  PlacementPlans plans;
  PlacementPlans others;
  std::int64_t bytes = 0;
  if (next_ != nullptr) {
    plans.push_back(next_);
    bytes = next_->height_bytes();
  }
  for (Known& known : known_) {
    known.is_offered = !is_lost && (!is_found || known.last().signature() == signature);
    if (!known.is_offered) continue;
    plans.push_back(known.next());
    for (const std::shared_ptr<const PlacementPlan>& plan : known.plans) {
      bytes = std::max(bytes, plan->height_bytes());
      if (plan != known.next()) others.push_back(plan);
    }
  }
  // The policy follows the first of equal requests, and keeps its notes on the others.
  plans.insert(plans.end(), others.begin(), others.end());
  policy_.BeginIteration(std::move(plans));
  counts_ = policy_.counts();
  // Only once for each boundary, however often the request after it is refused.
  if (is_found) until_boundary_ = finder_.period();
  if (policy_.followed() != nullptr) {
    finder_.Reset();
    until_boundary_ = kUnknown;
  }
  log_.Begin(rest_.is_resting());
  is_logging_ = true;
  if (bytes == 0) return {};
  return {{base_, bytes}, MostBytes(bytes - base_)};
}

// Only marks give memory back: that may wait for work, for which no request may wait. Once the
// plans are in use the pool holds their memory, and at most as much again as was ever live.
std::int64_t Iterations::MostBytes(std::int64_t planned_bytes) {
  if (!is_marked_) return INT64_MAX;
  if (give_backs_ == 0) return planned_bytes + most_live_;
  --give_backs_;
  return planned_bytes;
}

// Plans that were ordered before the base moved would lie in memory that was given back.
void Iterations::Take(IterationPlans made) {
  if (made.ordered_base != base_) return;
  if (std::exchange(base_, made.base) != made.base) known_.clear();
  AddPlans(std::move(made.plans));
}

void Iterations::AddPlans(PlacementPlans plans) {
  ++plans_made_;
  give_backs_ = kGiveBacksOfPlan;
  if (!is_marked_) rest_.CountPlanOfFound();
  // Drop shorter plans that begin like this one at other offsets: this plan could not keep theirs,
  // but they can be made again with its offsets. The longer iteration often keeps for long the
  // memory that the shorter one frees early.
  const PlacementPlan& last = *plans.back();
  std::erase_if(known_, [&](const Known& known) { return IsAtOdds(known.last(), last); });
  auto known = FindKnown(last.signature());
  if (known == known_.end()) {
    ++unused_;
    known_.emplace_front();
    known = known_.begin();
  }
  known->plans = std::move(plans);
  known->turn = 0;
  known->is_offered = false;
  known->tries = kMostTries;
  if (known_.size() > most_plans_) known_.pop_back();
}

void Iterations::AddCounts(PoolStats& stats) const {
  const PlannedCounts counts = policy_.counts();
  stats.planned = counts.planned;
  stats.deviations = counts.deviations;
  stats.plans = plans_made_;
  stats.iterations = iterations_;
  stats.repeated_requests = static_cast<std::int64_t>(finder_.most_repeated());
  stats.repeat_distance = static_cast<std::int64_t>(finder_.distance_of_most());
}

std::deque<Iterations::Known>::iterator Iterations::FindKnown(std::uint64_t signature) {
  return std::find_if(known_.begin(), known_.end(),
                      [&](const Known& known) { return known.last().signature() == signature; });
}

}  // namespace tidepool::pool
